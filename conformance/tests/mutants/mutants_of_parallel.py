"""Level 9 mutants: features of memory and of several processes. Each needs an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from mutant import mutant

from sglang_platform.core.distributed.transfer_engine import TransferEngine
from sglang_platform.core.graph.stage import StageInputs
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.core.memory.memory_saver import MemorySaver
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
from sglang_platform.example_oot.platform import ExampleOOTPlatform


class _FirstStepOnly(StageInputs):
    loaded = False

    def load(self, received: Mapping[str, Any], bucket: int) -> None:
        if not self.loaded:
            super().load(received, bucket)
        self.loaded = True


class _StaleStage(ExampleOOTGraphRunner):
    def capture(self) -> None:
        super().capture()
        self.stage = _FirstStepOnly(self.stage.buffers)


@mutant(
    check="features.pipeline_parallel",
    defect="a later stage copies what it is handed at the first decode step only",
    says="transformers gives",
    host="sglang",
    device="example_oot",
)
class StageReadsTheFirstStep(ExampleOOTPlatform):
    def get_graph_runner_cls(self) -> Any:
        return _StaleStage


class _NothingComesBack(HostMemory):
    def copy_pages_in(self, *args: Any) -> None:
        """Leaves the pages where they are."""


@mutant(
    check="features.hierarchical_cache",
    defect="what was evicted is said to be back, and the device still holds other rows",
    says="transformers gives",
    host="sglang",
)
class CacheNeverLoads(ExampleOOTPlatform):
    def get_host_memory_cls(self) -> Any:
        return _NothingComesBack


class _OnePageFurther(HostMemory):
    def copy_pages_out(
        self,
        sources: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
        from_: Any,
        to: Any,
        page_size: int,
    ) -> None:
        to = (to + page_size) % (targets[0].shape[0] * page_size)
        super().copy_pages_out(sources, targets, from_, to, page_size)


@mutant(
    check="features.hierarchical_cache_write_back",
    defect="pages are written to host memory one too far",
    says="transformers gives",
    host="sglang",
)
class CacheOnePageTooFar(ExampleOOTPlatform):
    def get_host_memory_cls(self) -> Any:
        return _OnePageFurther


class _KeepsEverything(MemorySaver):
    def release(self, tag: str, tensors: Iterable[torch.Tensor], *, keep_content: bool = False) -> None:
        self._held[tag] = []


@mutant(
    check="features.memory_saver",
    defect="memory is said to be released, and none is",
    says="nothing was given back",
    host="sglang",
)
class ReleasesNothing(ExampleOOTPlatform):
    def get_memory_saver_cls(self) -> Any:
        return _KeepsEverything


class _LosesTheLastBlock(TransferEngine):
    def batch_transfer_sync_write(
        self, session: str, addresses: Sequence[int], peer_addresses: Sequence[int], lengths: Sequence[int]
    ) -> int:
        # Pages are alike; what goes with them, as the first token, is not, and stays whole.
        kept = len(lengths) - (len(lengths) > 1 and len(set(lengths)) == 1)
        return super().batch_transfer_sync_write(
            session, addresses[:kept], peer_addresses[:kept], lengths[:kept]
        )


@mutant(
    check="features.prefill_and_decode_apart",
    defect="the last block of a transfer is left out, and reported as sent",
    says="transformers",
    host="sglang",
    device="example_oot",
)
class TransferLosesABlock(ExampleOOTPlatform):
    def get_transfer_engine_cls(self) -> Any:
        return _LosesTheLastBlock
