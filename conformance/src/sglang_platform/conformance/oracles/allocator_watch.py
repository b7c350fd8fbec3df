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

_LENDS = ("alloc", "alloc_extend", "alloc_decode")
_FORGETS = ("restore_state", "clear", "resize", "free_segments", "free_full_segments")
"""After these nothing is known of what is lent."""

_BETWEEN = -7
"""What stands between the values of a view: no slot, page or length."""


class WatchedAllocator:
    """Passes every call on. What a call is given lies as every second element of a larger tensor, as a column of the
    request table does; afterwards it must read as before, and is written over. Slots and pages have 32 bits, as that
    table has, in every second call of a name. What `num_new_pages` says is passed on to who takes it.

    Raises AllocatorFault where an argument is changed, and where a free gives back less than it names.
    """

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator
        self._calls: Counter[str] = Counter()
        self._lent: set[int] = set()
        """Pages that it answered with and that no free has named, as far as is known."""
        self._group: list[str] | None = None
        """The calls of an open free group."""
        self._named: set[int] = set()
        """Lent pages that they name."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._allocator, name)
        if name in _SLOTS_AT or name in _LENDS:
            return self._watched(name, value)
        if name in _FORGETS or name in ("free_group_begin", "free_group_end"):
            return self._counted(name, value)
        return value

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
            before_it = self._allocator.available_size() if name.startswith("free") else 0
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
            if name.startswith("free"):
                self._judge_free(name, args[0], before_it)
            elif isinstance(answer, torch.Tensor):
                self._lent |= self._pages(answer)
            return answer

        return call

    def _counted(self, name: str, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = self._allocator.available_size() if self._group else 0
            answer = method(*args, **kwargs)
            if name == "free_group_begin":
                self._group, self._named = [], set()
            elif name in _FORGETS:
                self._lent, self._named = set(), set()
            elif self._group is not None:
                calls, self._group = self._group, None
                self._judge(f"a group of {len(calls)} frees ({', '.join(dict.fromkeys(calls))})", before)
            return answer

        return call

    def _pages(self, slots: torch.Tensor) -> set[int]:
        return set((slots.flatten().cpu().long() // self._allocator.page_size).unique().tolist())

    def _judge_free(self, name: str, freed: torch.Tensor, before: int) -> None:
        pages = set(freed.tolist()) if name == "free_page_ids" else self._pages(freed)
        if name == "free_segment":  # the host leaves pages out of it that others share
            self._lent -= pages
            return
        self._named |= pages & self._lent
        self._lent -= pages
        if self._group is not None:
            self._group.append(f"{name}()")
        else:
            sort = "pages" if name == "free_page_ids" else "slots"
            self._judge(f"{name}() of {freed.numel()} {sort} ({freed.dtype})", before)

    def _judge(self, what: str, before: int) -> None:
        """A free that names lent pages gives back all of them."""
        named, self._named = self._named, set()
        after, size = self._allocator.available_size(), self._allocator.page_size
        if after < before + len(named) * size:
            raise AllocatorFault(
                f"{what}, which names {len(named)} lent pages, gives back {(after - before) / size:g}:"
                f" available_size() was {before}, is {after} and must be {before + len(named) * size}",
                "give back the page of every slot that is named, each once, however many there are, in whatever order",
            )


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.full((*tensor.shape, 2), _BETWEEN, dtype=tensor.dtype, device=tensor.device)
    wide[..., 0] = tensor
    return wide[..., 0]


def _some(tensor: torch.Tensor) -> str:
    values = tensor.flatten().tolist()
    return f"{values[:8]}{' ...' * (len(values) > 8)}"
