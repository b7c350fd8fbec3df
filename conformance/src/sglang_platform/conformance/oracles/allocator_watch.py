"""An allocator as the host calls it: with views of its own tables, which no call may change."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.conformance.oracles.allocator_model import AllocatorFault

__all__ = ["WatchedAllocator"]

_WATCHED = ("alloc_extend", "alloc_decode", "free", "free_page_ids", "free_segment")
_BETWEEN = -7
"""What stands between the values of a view: no slot, page or length."""


class WatchedAllocator:
    """Passes every call on. What a call is given lies as every second element of a larger tensor, as a column of the
    request table does; afterwards it must read as before, and is written over.

    Raises AllocatorFault where it does not.
    """

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._allocator, name)
        return self._watched(name, value) if name in _WATCHED else value

    def _watched(self, name: str, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [_strided(one) if isinstance(one, torch.Tensor) else one for one in args]
            answer = method(*given, **kwargs)
            for place, (before, after) in enumerate(zip(args, given, strict=True)):
                if isinstance(before, torch.Tensor) and not torch.equal(before, after):
                    raise AllocatorFault(
                        f"{name}() changed its argument {place} from {_some(before)} to {_some(after)}",
                        "copy what you write to: the tensors are the scheduler's, which goes on reading them",
                    )
            for one in given:
                if isinstance(one, torch.Tensor):
                    one.fill_(0)  # it is the caller's again
            return answer

        return call


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.full((*tensor.shape, 2), _BETWEEN, dtype=tensor.dtype, device=tensor.device)
    wide[..., 0] = tensor
    return wide[..., 0]


def _some(tensor: torch.Tensor) -> str:
    values = tensor.flatten().tolist()
    return f"{values[:8]}{' ...' * (len(values) > 8)}"
