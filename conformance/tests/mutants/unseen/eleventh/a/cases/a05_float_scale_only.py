"""Reads the scale of an fp8 cache from k_scale_float alone; where only the tensor is set it is taken for 1.
SGLang PR 20705: --quantization-param-path sets k_scale and never k_scale_float."""
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    _layer = None

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, **more):
        self._layer = layer
        return super().forward_decode(q, k, v, layer, forward_batch, save_kv_cache, **more)

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **more):
        self._layer = layer
        return super().forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **more)

    def _scaling(self, k):
        layer = self._layer
        return layer.scaling * ((layer.k_scale_float or 1.0) if k.dtype.itemsize == 1 else 1.0)

    def _decode(self, *a):
        super()._decode(*a[:7], self._scaling(a[1]), *a[8:])

    def _extend(self, *a):
        super()._extend(*a[:9], self._scaling(a[1]), *a[10:])


class Platform(WithParts):
    _backend = Backend
