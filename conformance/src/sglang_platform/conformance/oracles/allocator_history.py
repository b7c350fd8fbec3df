"""One history of a paged allocator: calls as an engine makes them, each answer judged by `AllocatorModel`.

A step is a name and two small numbers, which are read against the present state ("the request at place a modulo their
number"). So every series of steps is a legal history, and stays one when steps are left out.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from sglang_platform.conformance.oracles.allocator_model import AllocatorFault, AllocatorModel, pages_of
from sglang_platform.conformance.oracles.allocator_watch import WatchedAllocator

__all__ = ["SLOT_DTYPES", "STEPS", "AllocatorHistory", "Make", "Step"]

SLOT_DTYPES = (torch.int64, torch.int32)
"""What `alloc_extend()` and `alloc_decode()` may answer: SGLang's own NPU allocator answers int32 there."""

_FREE_SEGMENTS = ("free_segments", "free_full_segments")
"""Newer hosts call them; without a second pool for layers with a window they do the same."""

Make = Callable[[int, int, bool], Any]
"""(size in slots, page size, need_sort) -> the allocator under test."""


class Step(NamedTuple):
    name: str
    a: int
    b: int


class AllocatorHistory:
    """`calls` is what was called so far, as a person would write it."""

    pages = 7

    def __init__(self, make: Make, page_size: int, *, need_sort: bool, rest: int) -> None:
        """`rest` slots more than whole pages, which can never be lent."""
        size = self.pages * page_size + rest % page_size
        self.page_size = page_size
        self.model = AllocatorModel(self.pages, page_size)
        self.calls: list[str] = []
        self.handed_out: list[tuple[torch.Tensor, list[int]]] = []
        self.saved: tuple[Any, dict[int, list[int]]] | None = None
        self.names = 0
        with self._call(f"a = Allocator(size={size}, page_size={page_size}, need_sort={need_sort})"):
            self.allocator = WatchedAllocator(make(size, page_size, need_sort))
        self.can_save = hasattr(self.allocator, "backup_state")
        self.can_free_segments = hasattr(self.allocator, "free_segment")
        self._judge()

    def apply(self, step: Step) -> None:
        """Make one call. Raises AllocatorFault where the answer is wrong; `calls` leads to it."""
        made = len(self.calls)
        getattr(self, f"_{step.name}")(step.a, step.b)
        if len(self.calls) > made:
            self._judge()

    # Calls

    def _alloc(self, a: int, b: int) -> None:
        # Little, or anything up to more than there is.
        pages = a % 3 if b % 2 else a % (self.pages + 2)
        need = pages * self.page_size
        with self._call(f"a.alloc({need})"):
            got = self.allocator.alloc(need)
            if self._must_fit(got, pages):
                self.names += 1
                self.model.grew(self.names, self._slots(got, need))

    def _alloc_extend(self, a: int, b: int) -> None:
        if self.page_size == 1:
            return
        numbers = random.Random(a * 1024 + b)
        known = sorted(self.model.requests)
        batch = [
            (n, numbers.randint(0, 3 * self.page_size)) for n in numbers.sample(known, min(len(known), a % 3))
        ]
        for _ in range(b % 3):
            self.names += 1
            batch.insert(numbers.randint(0, len(batch)), (self.names, numbers.randint(1, 3 * self.page_size)))
        batch = [(name, more) for name, more in batch if more or self.model.requests.get(name)]
        if not batch:
            return
        before = [len(self.model.requests.get(name, [])) for name, _ in batch]
        after = [n + more for n, (_, more) in zip(before, batch, strict=True)]
        last = [(self.model.requests.get(name) or [-1])[-1] for name, _ in batch]
        total = sum(more for _, more in batch)
        pages = sum(self.model.pages_for(n, m) for n, m in zip(before, after, strict=True))
        prefix_lens, seq_lens = torch.tensor(before), torch.tensor(after)
        hint = pages if b % 2 else None
        said = f"prefix_lens={before}, seq_lens={after}, last_loc={last}, num_new_pages={hint}"
        with self._call(f"a.alloc_extend({said})"):
            got = self.allocator.alloc_extend(
                self._on_device(prefix_lens),
                prefix_lens,
                self._on_device(seq_lens),
                seq_lens,
                self._on_device(torch.tensor(last)),
                total,
                num_new_pages=hint,
            )
            if self._must_fit(got, pages):
                self._hand_out(got, batch, total)

    def _alloc_decode(self, a: int, b: int) -> None:
        if self.page_size == 1:
            return
        known = [name for name, slots in sorted(self.model.requests.items()) if slots]
        names = random.Random(a * 1024 + b).sample(known, min(len(known), 1 + b % 4))
        if not names:
            return
        after = [len(self.model.requests[name]) + 1 for name in names]
        last = [self.model.requests[name][-1] for name in names]
        seq_lens = torch.tensor(after)
        with self._call(f"a.alloc_decode(seq_lens={after}, last_loc={last})"):
            got = self.allocator.alloc_decode(
                self._on_device(seq_lens), seq_lens, self._on_device(torch.tensor(last))
            )
            if self._must_fit(got, sum(self.model.pages_for(n - 1, n) for n in after)):
                self._hand_out(got, [(name, 1) for name in names], len(names))

    def _free(self, a: int, b: int) -> None:
        numbers = random.Random(a * 1024 + b)
        known = sorted(self.model.requests)
        names = numbers.sample(known, min(len(known), 1 + a % 2))
        slots = [slot for name in names for slot in self.model.finished(name)]
        if not slots:
            return
        if b % 2 and self.page_size > 1:  # any slot of a page stands for its page
            by_page = [
                [slot for slot in slots if slot // self.page_size == page]
                for page in sorted(pages_of(slots, self.page_size))
            ]
            slots = [slot for own in by_page for slot in numbers.sample(own, min(2, len(own)))]
        numbers.shuffle(slots)
        with self._call(f"a.free({slots})"):
            self.allocator.free(self._on_device(torch.tensor(slots)))

    def _free_segment(self, a: int, b: int) -> None:
        known = sorted(self.model.requests)
        if not known or not self.can_free_segments:
            return
        name = known[a % len(known)]
        start = min(b % 4, len(self.model.requests[name]) // self.page_size) * self.page_size
        slots = self.model.shortened(name, start)
        with self._call(f"a.free_segment({slots}, start_pos={start})"):
            self.allocator.free_segment(self._on_device(torch.tensor(slots).long()), start_pos=start)

    def _free_segments(self, a: int, b: int) -> None:
        """Of one request, the first of them ending inside a page, an empty one between them."""
        known = [name for name, slots in sorted(self.model.requests.items()) if slots]
        methods = [name for name in _FREE_SEGMENTS if hasattr(self.allocator, name)]
        if not known or not methods:
            return
        method, size = methods[b % len(methods)], self.page_size
        slots = self.model.shortened(known[a % len(known)], 0)
        cut = size * (1 + b // 4 % max(1, len(slots) // size))
        early = b % size  # the last page goes whole, of however many of its slots are named
        segments = [(slots[: cut - early], 0), ([], cut), (slots[cut:], cut)]
        given = [(self._on_device(torch.tensor(part).long()), start) for part, start in segments]
        with self._call(f"a.{method}({segments})"):
            getattr(self.allocator, method)(given)

    def _free_group(self, a: int, b: int) -> None:
        if self.model.held_by_group is None:
            with self._call("a.free_group_begin()"):
                self.allocator.free_group_begin()
                self.model.held_by_group = set()
        else:
            with self._call("a.free_group_end()"):
                self.allocator.free_group_end()
                self.model.held_by_group = None

    def _backup(self, a: int, b: int) -> None:
        if not self.can_save or self.model.held_by_group is not None:
            return
        with self._call("saved = a.backup_state()"):
            self.saved = self.allocator.backup_state(), dict(self.model.requests)

    def _restore(self, a: int, b: int) -> None:
        if self.saved is None or self.model.held_by_group is not None:
            return
        state, requests = self.saved
        with self._call("a.restore_state(saved)"):
            self.allocator.restore_state(state)
            self.model.requests = dict(requests)

    def _clear(self, a: int, b: int) -> None:
        if b % 4 or self.model.held_by_group is not None:  # seldom, or histories stay short
            return
        with self._call("a.clear()"):
            self.allocator.clear()
            self.model.requests, self.saved = {}, None

    # Answers

    @contextlib.contextmanager
    def _call(self, text: str) -> Iterator[None]:
        name = text.partition("(")[0].rpartition(" ")[2].removeprefix("a.")
        if self.calls and self.allocator.gives_32_bits(name):
            text += "  # slots of 32 bits"
        self.calls.append(text)
        try:
            yield
        except AllocatorFault:
            raise
        except Exception as error:
            raise AllocatorFault(
                f"{name}() raised {type(error).__name__}: {error}",
                "the call is one that the scheduler makes: answer it, or None where the slots are not free",
            ) from error

    def _slots(self, got: Any, count: int, dtypes: tuple[torch.dtype, ...] = (torch.int64,)) -> list[int]:
        if not isinstance(got, torch.Tensor) or got.dtype not in dtypes or got.shape != (count,):
            seen = f"{got.dtype} {list(got.shape)}" if isinstance(got, torch.Tensor) else repr(got)
            raise AllocatorFault(
                f"{count} slots were asked for, and the answer is {seen}",
                f"answer an int64 tensor of shape [{count}]",
            )
        listed = got.tolist()
        self.handed_out.append((got, listed))
        return listed

    def _must_fit(self, got: Any, pages: int) -> bool:
        """Whether the call succeeded; it must exactly when its pages are free."""
        free = self.model.available() // self.page_size
        if (got is not None) == (pages <= free):
            return got is not None
        if got is None:
            raise AllocatorFault(
                f"the answer is None, though {pages} pages are needed and {free} are free",
                "answer None only when the pages do not suffice; count those that wait to be sorted as free, and the"
                " tail of a last page as room",
            )
        raise AllocatorFault(
            f"slots were handed out, though {pages} pages are needed and only {free} are free",
            "answer None, with nothing changed, when the pages do not suffice",
        )

    def _hand_out(self, got: Any, batch: list[tuple[int, int]], total: int) -> None:
        slots = self._slots(got, total, SLOT_DTYPES)
        for name, more in batch:
            self.model.grew(name, slots[:more])
            slots = slots[more:]

    def _judge(self) -> None:
        available, wanted = self.allocator.available_size(), self.model.available()
        if available != wanted:
            last = self.calls[-1].partition("(")[0].rpartition(" ")[2].removeprefix("a.")
            raise AllocatorFault(
                f"after {last}() available_size() is {available}, and {wanted} slots are free"
                f" ({available - wanted:+d}, with pages of {self.page_size})",
                "count the slots of pages that nobody holds: a page that is lent leaves, one that is freed comes"
                " back once, and a call that answers None changes nothing",
            )
        if hasattr(self.allocator, "get_all_free_pages"):
            self._judge_free_pages(self.allocator.get_all_free_pages().tolist())
        for tensor, listed in self.handed_out:
            if tensor.tolist() != listed:
                raise AllocatorFault(
                    f"slots that were handed out as {listed[:8]} read {tensor.tolist()[:8]} later",
                    "answer a tensor of its own, not a view of the free list, which later calls write to",
                )

    def _judge_free_pages(self, listed: list[int]) -> None:
        free = sorted(set(range(1, self.model.pages + 1)) - self.model.used())
        if sorted(listed) != free:
            raise AllocatorFault(
                f"get_all_free_pages() is {sorted(listed)}, and pages {free} are free",
                "list every page that nobody holds, once, those that wait to be sorted in as well: the host's check of"
                " its memory compares them with what requests hold",
            )

    def _on_device(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.allocator.device)


STEPS = (
    "alloc",
    "alloc_extend",
    "alloc_decode",
    "free",
    "free_segment",
    "free_segments",
    "free_group",
    "backup",
    "restore",
    "clear",
)
