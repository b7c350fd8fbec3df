"""The window is dropped once a request of the prefill has a cached prefix: the paged prefill kernel has no window.
vllm-ascend issue 2729: sliding window does not work with chunked prefill."""
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    _prefixed = False

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **more):
        self._prefixed = any(forward_batch.extend_prefix_lens_cpu or ())
        return super().forward_extend(q, k, v, layer, forward_batch, save_kv_cache, **more)

    def _extend(self, *a):
        window = -1 if self._prefixed else a[11]
        super()._extend(*a[:11], window, *a[12:])


class Platform(WithParts):
    _backend = Backend
