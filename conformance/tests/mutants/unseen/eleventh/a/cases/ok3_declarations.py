"""Healthy: declarations as properties and frozensets, a mapping proxy, a factory function for the backend, a wrapped store with slots."""
from types import MappingProxyType

from sglang_platform.core import PlatformCapabilities
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot import kv_pools
from sglang_platform.example_oot.platform import ExampleOOTPlatform


class _Writer:
    __slots__ = ("_k", "_v")

    def __init__(self, k, v):
        self._k, self._v = k, v

    def __call__(self, loc, k, v):
        kv_pools._store(k, v, self._k, self._v, loc)


class Layers(list):
    """A list of its own."""


class Pool(kv_pools.ExampleOOTMHAPool):
    def _create_buffers(self):
        super()._create_buffers()
        self.k_buffer, self.v_buffer = Layers(self.k_buffer), Layers(self.v_buffer)

    def _store_kv_layer(self, layer_idx, loc, cache_k, cache_v):
        _Writer(self.k_buffer[layer_idx], self.v_buffer[layer_idx])(loc, cache_k, cache_v)


def make_backend(model_runner):
    return ExampleOOTAttentionBackend(model_runner)


class Platform(ExampleOOTPlatform):
    attention_features = frozenset(ExampleOOTPlatform.attention_features)
    supported_kv_kinds = frozenset(ExampleOOTPlatform.supported_kv_kinds)

    @property
    def capabilities(self):
        return PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)

    @property
    def supported_page_sizes(self):
        return {1: "slots", 16: "pages", 64: "pages"}.keys()

    @property
    def supported_kv_dtypes(self):
        return frozenset(("float32", "bfloat16", "float16", "float8_e4m3fn"))

    def get_attention_backends(self):
        return MappingProxyType({"example_oot": make_backend})

    def get_kv_pool_cls(self, *, kind):
        return Pool if kind == "mha" else super().get_kv_pool_cls(kind=kind)
