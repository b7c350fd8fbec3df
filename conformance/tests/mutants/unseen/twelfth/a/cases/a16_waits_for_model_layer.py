"""A reader of a layer that is loaded back from host memory waits by the layer's number in the whole model, where the
counter counts the pool's own layers. On the first pipeline stage both are equal. On later stages it waits for a layer that
has not been asked for (or that the counter does not have), and reads its own before it has arrived.
follows: sgl-project/sglang#39699, vllm-project/vllm-ascend#17073
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.conformance.reference.pools import ReferenceMHAPool
from sglang_platform.core.contract.types import kv_pool_kind


class Pool(ReferenceMHAPool):
    def _wait(self, layer_id):
        self._layer(layer_id)  # raises for a layer of another stage
        if self.layer_transfer_counter is not None:
            self.layer_transfer_counter.wait_until(layer_id)


class Platform(ReferencePlatform):
    def get_kv_pool_cls(self, *, kind):
        return Pool if kv_pool_kind(kind) == "mha" else super().get_kv_pool_cls(kind=kind)
