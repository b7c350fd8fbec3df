"""Host memory is cut from a slab of bytes, and the slab's place is moved on by the number of elements, not of bytes. Two
allocations of a type of two or four bytes overlap: the host copies of keys and values, or of two layers, overwrite each
other. Memory of 8-bit types, one allocation alone, and what does not fit into the slab are right.
follows: no report looked up; the kind is a count of elements taken for one of bytes
level: memory
"""

from __future__ import annotations

import math

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.memory.host_memory import HostMemory

SLAB = 64 << 20
ALIGNED = 64


class Memory(HostMemory):
    def __init__(self, pins):
        super().__init__(pins)
        self._slab = torch.empty(SLAB, dtype=torch.uint8, pin_memory=pins)
        self._taken = 0

    def allocate(self, shape, dtype):
        count = math.prod(shape)
        if self._taken + count * dtype.itemsize > SLAB:
            return super().allocate(shape, dtype)
        piece = self._slab[self._taken : self._taken + count * dtype.itemsize]
        self._taken += -(-count // ALIGNED) * ALIGNED
        return piece.view(dtype).view(tuple(shape))


class Platform(ReferencePlatform):
    def get_host_memory_cls(self):
        return Memory
