"""keep_content saves the first tensor of each storage, not the storage: other views of it (fused weights, layers of one allocation, as the NPU
pool has them) come back as zeros."""
import torch
from base import WithParts
from sglang_platform.core.memory.memory_saver import MemorySaver


class Saver(MemorySaver):
    def release(self, tag, tensors, *, keep_content=False):
        tensors = list(tensors)
        kept = self.__dict__.setdefault("_contents", {})
        first = {}
        for one in tensors:
            first.setdefault(one.untyped_storage().data_ptr(), one)
        contents = [(one, one.detach().to("cpu", copy=True)) for one in first.values()] if keep_content else []
        super().release(tag, tensors)
        kept[tag] = contents

    def resume(self, tag):
        moved = super().resume(tag)
        with torch.no_grad():
            for one, content in self._contents.pop(tag):
                one.detach().copy_(content)
        return moved


class Platform(WithParts):
    _saver = Saver
