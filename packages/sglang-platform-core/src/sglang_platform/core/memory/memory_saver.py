"""Releases device memory (weights, KV cache, graphs) while an engine is idle, and reallocates it later.

An operator who trains and serves on the same devices lets the engine release its memory, and resume later. SGLang does
this with CUDA's virtual memory; other devices use this class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError

if TYPE_CHECKING:
    import torch

__all__ = ["MemorySaver"]

_released = counter("memory_saver.bytes_released")


class _Held(NamedTuple):
    storage: Any
    size: int
    address: int
    content: Any


class MemorySaver(Part):
    """Memory saver through torch alone: resizes the storage of each tensor to 0, and reallocates it filled with zeros.

    Tensors stay the same objects, so models and pools notice nothing. Their addresses may change, which `resume`
    reports. A device that can unmap memory and keep its addresses overrides `release` and `resume`.
    """

    def __init__(self) -> None:
        self._held: dict[str, list[_Held]] = {}

    def release(self, tag: str, tensors: Iterable[torch.Tensor], *, keep_content: bool = False) -> None:
        """Release the memory of the tensors, which must not be read until `resume(tag)`; a shared storage counts once.

        `keep_content`: `resume` restores the content; otherwise the tensors then hold zeros. Raises PlatformError for a
        tag that is already released.
        """
        if tag in self._held:
            raise PlatformError(f"the memory {tag!r} is released already", fix="resume it first")
        storages = {storage.data_ptr(): storage for storage in map(_storage_of, tensors) if storage.nbytes()}
        held = []
        for address, storage in storages.items():
            content = _copy_in_host_memory(storage) if keep_content else None
            held.append(_Held(storage, storage.nbytes(), address, content))
            _released.add(storage.nbytes())
            storage.resize_(0)
        self._held[tag] = held

    def resume(self, tag: str) -> bool:
        """Reallocate the memory; returns True if any address has changed. Raises PlatformError for a tag that is not
        released."""
        if tag not in self._held:
            raise PlatformError(f"the memory {tag!r} is not released", fix="release it first")
        moved = False
        for storage, size, address, content in self._held.pop(tag):
            storage.resize_(size)
            if content is not None:
                storage.copy_(content)
            else:
                storage.fill_(0)  # a step before the weight update must not read garbage
            moved |= storage.data_ptr() != address
        return moved

    def released(self) -> tuple[str, ...]:
        """The tags that are released now."""
        return tuple(self._held)


def _storage_of(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage()


def _copy_in_host_memory(storage: Any) -> Any:
    import torch

    return torch.UntypedStorage(storage.nbytes()).copy_(storage)
