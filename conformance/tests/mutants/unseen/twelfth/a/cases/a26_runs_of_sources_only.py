"""Rows between the pool and host memory are copied in runs, and a run ends where the source's slots do not go on by one;
the target's slots are not looked at. Where a request lies in one piece on one side and scattered on the other, rows land
beside their slots, over those of others. Transfers in which both sides are in pieces at the same places are right.
follows: kindred to sgl-project/sglang#37496 and #37507 (hierarchical cache transfers by the wrong row indices)
level: memory
"""

from __future__ import annotations

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.memory.host_memory import HostMemory


class Memory(HostMemory):
    def copy_slots(self, sources, targets, from_, to):
        if from_.numel() != to.numel():
            raise ValueError(f"{from_.numel()} slots cannot be copied to {to.numel()}")
        source_slots, target_slots = from_.tolist(), to.tolist()
        starts = [
            at for at, slot in enumerate(source_slots) if at == 0 or slot != source_slots[at - 1] + 1
        ]
        pieces = []
        for start, end in zip(starts, [*starts[1:], len(source_slots)]):
            pieces.append((source_slots[start], target_slots[start], end - start))
        self.copy(
            (target[first : first + count], source[begin : begin + count][: len(target[first : first + count])])
            for source, target in zip(sources, targets, strict=True)
            for begin, first, count in pieces
        )


class Platform(ReferencePlatform):
    def get_host_memory_cls(self):
        return Memory
