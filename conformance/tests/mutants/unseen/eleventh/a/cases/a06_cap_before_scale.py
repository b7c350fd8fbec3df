"""The soft cap is applied to the score of the stored fp8 keys, and their scale afterwards. Gemma-2 and Grok cap; with an fp8 cache
the scale is 'fused at the end' (kernels that fold descale into the epilogue, sgl-kernel-xpu PR 252)."""
from a05_float_scale_only import Backend as Remembering
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(Remembering):
    def _cap(self, k, cap):
        layer = self._layer
        if k.dtype.itemsize > 1 or layer.k_scale is None:
            return cap
        return cap * float(layer.k_scale_float or layer.k_scale)

    def _decode(self, *a):
        ExampleOOTAttentionBackend._decode(self, *a[:8], self._cap(a[1], a[8]), *a[9:])

    def _extend(self, *a):
        ExampleOOTAttentionBackend._extend(self, *a[:10], self._cap(a[1], a[10]), *a[11:])


class Platform(WithParts):
    _backend = Backend
