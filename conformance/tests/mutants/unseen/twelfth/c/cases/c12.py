"""Host memory from anonymous maps, registered by address and copied in pieces; a memory saver that keeps contents in a
file without a name.

Permitted by: HostMemory ("A device overrides `allocate`, `register` or `copy` if it has a better way"; allocate: "A
tensor in host memory with any content"), MemorySaver.release ("`keep_content`: `resume` restores the content; otherwise
the tensors then hold zeros": where it is kept meanwhile is nowhere said).

level: memory
"""

from __future__ import annotations

import logging
import math
import mmap
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.memory.host_memory import HostMemory
from sglang_platform.core.memory.memory_saver import MemorySaver

_log = logging.getLogger(__name__)
_PIECE = 1 << 20


class _MappedMemory(HostMemory):
    """Each tensor is a map of its own, which goes when its last view goes."""

    def __init__(self, pins: bool) -> None:
        super().__init__(pins)
        self._known: dict[int, int] = {}

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        shape = tuple(shape)
        size = math.prod(shape) * dtype.itemsize
        if size == 0 or self.pins:
            return super().allocate(shape, dtype)
        return torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8).view(dtype).view(shape)

    def register(self, tensor: torch.Tensor) -> bool:
        self._known[tensor.data_ptr()] = tensor.nbytes
        return True

    def unregister(self, tensor: torch.Tensor) -> None:
        self._known.pop(tensor.data_ptr(), None)

    def copy(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().copy(
            piece
            for target, source in pairs
            for piece in zip(target.view(-1).split(_PIECE), source.view(-1).split(_PIECE), strict=True)
        )


def _bytes_of(storage: Any) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


class _FiledSaver(MemorySaver):
    """Core's, but what is to be kept lies in a file."""

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, list[tuple[Any, Any]]] = {}

    def release(self, tag: str, tensors: Iterable[torch.Tensor], *, keep_content: bool = False) -> None:
        tensors = list(tensors)
        files = []
        if keep_content and tag not in self.released():
            storages = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in tensors}
            for storage in storages.values():
                if storage.nbytes():
                    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in resume()
                    file.write(_bytes_of(storage).clone().cpu().numpy())  # numpy() of its own would pin its size
                    files.append((storage, file))
        super().release(tag, tensors)
        self._files[tag] = files
        _log.info("%r is released, %d storages are kept in files", tag, len(files))

    def resume(self, tag: str) -> bool:
        moved = super().resume(tag)
        for storage, file in self._files.pop(tag, []):
            with file:
                content = torch.empty(storage.nbytes(), dtype=torch.uint8)
                file.seek(0)
                file.readinto(content.numpy())
                _bytes_of(storage).copy_(content)
        return moved


class Platform(ReferencePlatform):
    """Nothing else differs."""

    def get_host_memory_cls(self) -> type | None:
        return _MappedMemory

    def get_memory_saver_cls(self) -> type | None:
        return _FiledSaver
