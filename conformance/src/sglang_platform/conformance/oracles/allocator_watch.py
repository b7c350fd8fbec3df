"""An allocator as the host calls it: with views of its own tables, which no call may change."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import torch

from sglang_platform.conformance.oracles.allocator_model import AllocatorFault

__all__ = ["WatchedAllocator"]

_SLOTS_AT = {"alloc_extend": 4, "alloc_decode": 2, "free": 0, "free_page_ids": 0, "free_segment": 0}
"""The calls that are watched, and which of their arguments names slots or pages."""

_BETWEEN = -7
"""What stands between the values of a view: no slot, page or length."""


class WatchedAllocator:
    """Passes every call on. What a call is given lies as every second element of a larger tensor, as a column of the
    request table does; afterwards it must read as before, and is written over. Slots and pages have 32 bits, as that
    table has, in every second call of a name. What `num_new_pages` says is passed on to who takes it.

    Raises AllocatorFault where an argument is changed.
    """

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator
        self._calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._allocator, name)
        return self._watched(name, value) if name in _SLOTS_AT else value

    def gives_32_bits(self, name: str) -> bool:
        """Whether the next call of that name is given slots or pages of 32 bits."""
        return name in _SLOTS_AT and self._calls[name] % 2 == 1

    def _watched(self, name: str, method: Any) -> Any:
        def call(*args: Any, num_new_pages: int | None = None, **kwargs: Any) -> Any:
            if num_new_pages is not None and "num_new_pages" in inspect.signature(method).parameters:
                kwargs["num_new_pages"] = num_new_pages
            if self.gives_32_bits(name):
                args = tuple(one.int() if at == _SLOTS_AT[name] else one for at, one in enumerate(args))
            self._calls[name] += 1
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
