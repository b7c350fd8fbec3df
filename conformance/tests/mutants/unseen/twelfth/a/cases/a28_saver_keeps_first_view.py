"""The memory saver keeps, of each storage, a copy of the first tensor it is shown and not of the storage. Weights that are
cut from one storage (flat parameters, a fused projection beside its slices) come back with that tensor's part alone and
zeros in the rest, after a pause that promised to keep them. A storage with one tensor over all of it is right.
follows: no report looked up; the kind is a backup of tensors where storages are shared
level: memory
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.memory.memory_saver import MemorySaver


class Saver(MemorySaver):
    def __init__(self):
        super().__init__()
        self._views = {}

    def release(self, tag, tensors, *, keep_content=False):
        tensors = list(tensors)
        first = {}
        for tensor in tensors:
            first.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        kept = [(tensor, tensor.detach().to("cpu", copy=True)) for tensor in first.values() if keep_content]
        super().release(tag, tensors)
        self._views[tag] = kept

    def resume(self, tag):
        moved = super().resume(tag)
        with torch.no_grad():
            for tensor, content in self._views.pop(tag):
                tensor.copy_(content)
        return moved


class Platform(ReferencePlatform):
    def get_memory_saver_cls(self):
        return Saver
