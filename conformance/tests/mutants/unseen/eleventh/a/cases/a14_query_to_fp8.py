"""With an fp8 cache the query is cast to fp8 as well, without a scale of its own. SGLang PR 28144 (TRTLLM MHA: Q cast to fp8, q_scale 1)."""
from base import WithParts
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend


class Backend(ExampleOOTAttentionBackend):
    @staticmethod
    def _narrow(q, k):
        return q.to(k.dtype).to(q.dtype) if k.dtype.itemsize == 1 else q

    def _decode(self, q, k, *a):
        super()._decode(self._narrow(q, k), k, *a)

    def _extend(self, q, k, *a):
        super()._extend(self._narrow(q, k), k, *a)


class Platform(WithParts):
    _backend = Backend
