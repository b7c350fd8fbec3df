"""Giving a device's memory back while an engine stands by, and taking it again: weights, KV cache, graphs.

An operator who trains and serves on the same devices lets the engine release what it holds, and resume later. SGLang
does it with CUDA's virtual memory; for any other device it asks this class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

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


class MemorySaver:
    """Torch's own means: the storage of each tensor is emptied, and allocated again with zeros in it.

    Tensors stay the same objects, so models and pools know of nothing. Their addresses may change: `resume` says so. A
    device that can unmap memory and keep its addresses overrides `release` and `resume`.
    """

    def __init__(self) -> None:
        self._held: dict[str, list[_Held]] = {}

    def release(self, tag: str, tensors: Iterable[torch.Tensor], *, keep_content: bool = False) -> None:
        """Give back the memory of the tensors, which nobody reads until `resume(tag)`; views of one storage count once.

        `keep_content`: what they hold is there again afterwards; without it they hold zeros. Raises PlatformError for a
        tag that is released.
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
        """Take the memory again; returns whether any of it lies elsewhere now. Raises PlatformError for a tag that is
        not released."""
        if tag not in self._held:
            raise PlatformError(f"the memory {tag!r} is not released", fix="release it first")
        moved = False
        for storage, size, address, content in self._held.pop(tag):
            storage.resize_(size)
            if content is not None:
                storage.copy_(content)
            else:
                storage.fill_(0)  # a step before new weights come must not meet what other memory left
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
