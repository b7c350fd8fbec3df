"""One history of a paged allocator: calls as an engine makes them, each answer judged by `AllocatorModel`.

Each call is a method; after it what is free is compared with the model, and the answers of earlier calls are read
again. Tensors are passed as a scheduler has them: every second element of a larger tensor, as a column of the request
table, of 32 bits in every second call, and written over afterwards.
"""

from __future__ import annotations

import inspect
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

import numpy as np
import torch

from sglang_platform.conformance.oracles.allocator_fixes import COUNTED, COUNTS, GROUPED, RAISED, REFUSED
from sglang_platform.conformance.oracles.allocator_model import AllocatorFault, AllocatorModel, Slots

__all__ = ["DEBUG", "SLOT_DTYPES", "AllocatorHistory", "Free", "Make"]

SLOT_DTYPES = (torch.int64, torch.int32)
"""What `alloc_extend()` and `alloc_decode()` may answer, one type in all calls; SGLang's NPU allocator has int32."""

DEBUG = ("SGLANG_PLATFORM_DEBUG_MEMORY", "SGLANG_DEBUG_MEMORY_POOL")
"""Variables of the debug modes of core's allocators and of SGLang's."""

_SLOTS_AT = {"alloc_extend": 4, "alloc_decode": 2, "free": 0, "free_page_ids": 0, "free_segment": 0}
"""Which argument names slots or pages, of 32 bits in every second call."""

_BETWEEN = -7
"""What stands between the elements of an argument: no slot, page or length."""

_SHOWN = 24
"""Elements of a list in the text of a call."""

Make = Callable[[int, int, bool], Any]
"""(size in slots, page size, need_sort) -> the allocator under test."""

Free = Literal["slots", "some", "halves", "numbers", "segment"]
"""All slots of a request; at most two of each page; each page in two calls; its pages; its slots in their order."""


class AllocatorHistory:
    """`calls` is what was called so far, as a person would write it."""

    def __init__(
        self,
        make: Make,
        pages: int,
        page_size: int,
        *,
        rest: int = 0,
        need_sort: bool = False,
        debug: bool = False,
        written_over: bool = True,
    ) -> None:
        """`rest` slots more than whole pages, which can never be lent. `written_over`: what a call was given, after
        it."""
        size = pages * page_size + rest % page_size
        self.page_size, self.need_sort, self._written_over = page_size, need_sort, written_over
        self.model = AllocatorModel(pages, page_size)
        self.calls = [f"a = Allocator(size={size}, page_size={page_size}, need_sort={need_sort})"]
        self._answers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._slot_dtypes: tuple[torch.dtype, ...] = SLOT_DTYPES
        self._numbers: Counter[str] = Counter()
        self._begin("Allocator", "making it")
        with mock.patch.dict(os.environ, dict.fromkeys(DEBUG, "1") if debug else {}):
            self.allocator = make(size, page_size, need_sort)
        stated = getattr(self.allocator, "size", size)
        if stated not in (size, pages * page_size):
            raise AllocatorFault(
                f"size is {stated} of an allocator of {size} slots: the host counts what is in use, and looks for"
                " leaks, by it",
                "leave `size` what the constructor was given: the padding page is beside it",
            )
        self.takes_hint = "num_new_pages" in inspect.signature(self.allocator.alloc_extend).parameters
        self._judge()

    def has(self, method: str) -> bool:
        """Older releases of SGLang lack some."""
        return hasattr(self.allocator, method)

    @property
    def free_pages(self) -> int:
        return self.model.available() // self.page_size

    def new_name(self) -> int:
        return max(self.model.requests, default=0) + 1

    # Calls that lend

    def alloc(self, pages: int) -> int | None:
        """A request of whole pages; its name where they were free."""
        name, need, free = self.new_name(), pages * self.page_size, self.model.free_pages()
        freed = not self.model.fresh[free].any()
        if not self._lend("alloc", f"alloc({need})", pages, [(name, need)], (need,), (torch.int64,)):
            return None
        lent = self.model.slots(name)[:: self.page_size] // self.page_size
        down = np.flatnonzero(np.diff(lent) < 0)
        if self.need_sort and freed and pages == len(free) and len(down):
            shown = lent[max(0, down[0] - 3) : down[0] + 5].tolist()
            raise AllocatorFault(
                f"made with need_sort, {self._last} of all pages, freed in another order, lends them as {shown}",
                "with need_sort=True, sort what was freed before it is lent again, however much it is: engines send"
                " each other runs of pages",
            )
        return name

    def extend(self, batch: Mapping[int, int], *, counted: bool = False) -> bool:
        """Requests grow by so many tokens; `counted`: the caller has counted the new pages."""
        before = [self.model.tokens(name) for name in batch]
        after = [n + more for n, more in zip(before, batch.values(), strict=True)]
        pages = sum(map(self.model.pages_for, before, after))
        prefix, seq, last = torch.tensor(before), torch.tensor(after), self._last_slots(batch)
        said = f"prefix_lens={_some(before)}, seq_lens={_some(after)}, last_loc={_some(last.tolist())}"
        what = f"alloc_extend() of {len(batch)} requests{', whose new pages the caller counted' * counted}"
        given = self._on_device(prefix), prefix, self._on_device(seq), seq, last, sum(batch.values())
        hint = {"num_new_pages": pages} if counted and self.takes_hint else {}
        said += f", num_new_pages={pages}" * bool(hint)
        return self._lend(
            "alloc_extend", what, pages, list(batch.items()), given, self._slot_dtypes, said, **hint
        )

    def decode(self, names: Sequence[int]) -> bool:
        """Requests grow by a token each."""
        after = [self.model.tokens(name) + 1 for name in names]
        pages = sum(self.model.pages_for(n - 1, n) for n in after)
        seq, last = torch.tensor(after), self._last_slots(names)
        said = f"seq_lens={_some(after)}, last_loc={_some(last.tolist())}"
        what = f"alloc_decode() of {len(names)} requests"
        given, batch = (self._on_device(seq), seq, last), [(name, 1) for name in names]
        return self._lend("alloc_decode", what, pages, batch, given, self._slot_dtypes, said)

    def _lend(
        self,
        method: str,
        what: str,
        pages: int,
        batch: list[tuple[int, int]],
        given: Sequence[Any],
        dtypes: tuple[torch.dtype, ...],
        said: str | None = None,
        **hint: int,
    ) -> bool:
        """Whether the call succeeded; it must exactly when its pages are free."""
        free, count = self.free_pages, sum(more for _, more in batch)
        got = self._call(method, *given, what=what, said=said, **hint)
        if got is None and pages <= free:
            raise AllocatorFault(
                f"{what}: the answer is None, though {pages} pages are needed and {free} are free",
                "answer None only when the pages do not suffice; count those that wait to be sorted as free, and the"
                " tail of a last page as room",
            )
        if got is not None and pages > free:
            raise AllocatorFault(
                f"{what}: slots were handed out, though {pages} pages are needed and only {free} are free",
                REFUSED,
            )
        if got is None:
            self._last += ", which does not fit,"
            self._judge(REFUSED)
            return False
        if not isinstance(got, torch.Tensor) or got.dtype not in dtypes or got.shape != (count,):
            seen = f"{got.dtype} {list(got.shape)}" if isinstance(got, torch.Tensor) else repr(got)
            raise AllocatorFault(
                f"{what}: {count} slots were asked for, and the answer is {seen}",
                f"answer a tensor of {dtypes[0]} and shape [{count}], whatever the types of the arguments",
            )
        if method != "alloc":
            self._slot_dtypes = (got.dtype,)
        self._answers.append((got, got.clone()))
        slots = got.cpu().numpy().astype(np.int64)
        for name, more in batch:
            try:
                self.model.grew(name, slots[:more])
            except AllocatorFault as fault:
                raise AllocatorFault(f"{what}: {fault.what}", str(fault.fix)) from None
            slots = slots[more:]
        self._judge()
        return True

    # Calls that free

    def free(
        self, *names: int, how: Free = "slots", keep: int = 0, numbers: random.Random | None = None
    ) -> None:
        """Requests end in one call, as far as nobody shares their pages; `keep`: of one, its first tokens stay.
        `numbers` brings what is named in no order."""
        each = [self.model.shortened(name, keep) for name in names]
        method = {"numbers": "free_page_ids", "segment": "free_segment"}.get(how, "free")
        method = method if self.has(method) else "free"  # SGLang before 0.5.20 has no segments
        order = np.random.default_rng(numbers.randrange(1 << 30)) if numbers else None
        parts = [np.concatenate(each)]
        if method == "free_page_ids":
            parts = [np.concatenate([slots[:: self.page_size] // self.page_size for slots in each])]
        elif how == "some":
            parts = [np.concatenate([_two_of_each(slots, self.page_size, order) for slots in each])]
        elif how == "halves":
            early = parts[0] % self.page_size * 2 < self.page_size
            parts = [parts[0][early], parts[0][~early]]
        for part in parts:
            named = part if order is None or how == "segment" else order.permutation(part)
            what = f"{method}() of {len(named)} {'pages' if method == 'free_page_ids' else 'slots'}"
            more = {"start_pos": keep} if method == "free_segment" else {}
            self._call(method, self._on_device(torch.from_numpy(named.copy())), what=what, **more)
        self._judge()

    def free_segments(self, name: int, method: str, cut: int, early: int) -> None:
        """Of one request, the first of them ending `early` slots before its page does, an empty one between them."""
        slots = self.model.shortened(name, 0).tolist()
        segments = [(slots[: cut - early], 0), ([], cut), (slots[cut:], cut)]
        given = [(self._on_device(torch.tensor(part).long()), start) for part, start in segments]
        self._call(method, given, what=f"{method}()", said=str(segments))
        self._judge()

    def begin_group(self) -> None:
        self._call("free_group_begin")
        self.model.held_by_group = np.zeros(0, np.int64)
        self._judge()

    def end_group(self) -> None:
        """One that was dropped by `clear()` ends as one of nothing."""
        self._call("free_group_end")
        self.model.held_by_group = None
        self._judge()

    # The whole state

    def backup(self) -> Any:
        saved = self._call("backup_state"), self.model.saved()
        self._judge()
        return saved

    def restore(self, saved: Any) -> None:
        self._call("restore_state", saved[0], said="saved")
        self.model.restore(saved[1])
        self._judge()

    def clear(self) -> None:
        self._call("clear")
        self.model.clear(self.model.pages)
        self._judge()

    def resize(self, slots: int) -> None:
        """The host gives the pool other memory."""
        what = f"resize() from {self.model.pages} pages to {slots // self.page_size}"
        self._call("resize", SimpleNamespace(max_total_num_tokens=slots), what=what, said=f"{slots} slots")
        self.model.clear(slots // self.page_size)
        self._judge()

    # What a call is given, and what it leaves

    def _begin(self, method: str, what: str) -> None:
        frees = method.startswith("free") and "group" not in method
        grouped = self.model.held_by_group is not None and frees
        self._last = f"{what}{' in a free group' * grouped}"
        self._fix = GROUPED if grouped else COUNTS.get(method, COUNTS["free"])

    def _call(
        self, method: str, *given: Any, what: str = "", said: str | None = None, **keywords: int
    ) -> Any:
        at = _SLOTS_AT.get(method, -1)
        small = at >= 0 and self._numbers[method] % 2 == 1
        self._numbers[method] += 1
        wanted = [one.int() if small and place == at else one for place, one in enumerate(given)]
        if said is None:
            said = ", ".join(
                _some(one.tolist()) if isinstance(one, torch.Tensor) else str(one) for one in given
            )
        said += "".join(f", {name}={value}" for name, value in keywords.items() if name not in said)
        self.calls.append(f"a.{method}({said}){'  # slots of 32 bits' * small}")
        named = f" ({wanted[at].dtype})" if method.startswith("free") and at >= 0 else ""
        self._begin(method, (what or f"{method}()") + named)
        passed = [_strided(one) if isinstance(one, torch.Tensor) else one for one in wanted]
        try:
            answer = getattr(self.allocator, method)(*passed, **keywords)
        except Exception as error:
            raise AllocatorFault(
                f"{self._last} raised {type(error).__name__}: {error}",
                RAISED.get(method, "the call is one that the scheduler makes: answer it, or None where the slots are"
                " not free"),
            ) from error  # fmt: skip
        for place, (before, after) in enumerate(zip(wanted, passed, strict=True)):
            if isinstance(before, torch.Tensor):
                if not torch.equal(before, after):
                    raise AllocatorFault(
                        f"{method}() changed its argument {place} from {_some(before.tolist())} to"
                        f" {_some(after.tolist())}",
                        "copy what you write to: the tensors are the scheduler's, which goes on reading them",
                    )
                if self._written_over:
                    after.fill_(0)  # it is the caller's again
        return answer

    def _judge(self, fix: str | None = None) -> None:
        free = self.model.free_pages()
        available, wanted = self.allocator.available_size(), len(free) * self.page_size
        listed: Slots | None = None
        if self.has("get_all_free_pages"):
            listed = np.sort(self.allocator.get_all_free_pages().cpu().numpy())
        lists = listed is not None and np.array_equal(listed, free)
        if available != wanted:
            raise AllocatorFault(
                f"after {self._last} available_size() is {available}, and {wanted} slots are free"
                f" ({available - wanted:+d}, with pages of {self.page_size})"
                f"{', as get_all_free_pages() lists them' * lists}",
                COUNTED if lists else fix or self._fix,
            )
        if listed is not None and not lists:
            raise AllocatorFault(
                f"after {self._last} get_all_free_pages() is {_some(listed.tolist())}, and pages"
                f" {_some(free.tolist())} are free; page 0 is the padding page",
                "list every page that nobody holds, once, those that wait to be sorted in as well: the host's check of"
                " its memory compares them with what requests hold",
            )
        for answer, as_lent in self._answers:
            if not torch.equal(answer, as_lent):
                raise AllocatorFault(
                    f"slots that were handed out as {_some(as_lent.tolist())} read {_some(answer.tolist())} later",
                    "answer a tensor of its own, not a view of the free list, which later calls write to",
                )

    def _last_slots(self, names: Iterable[int]) -> torch.Tensor:
        slots = map(self.model.slots, names)
        return self._on_device(torch.tensor([int(own[-1]) if len(own) else -1 for own in slots]))

    def _on_device(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.allocator.device)


def _two_of_each(slots: Slots, page_size: int, order: Any) -> Slots:
    """Any slot of a page stands for its page."""
    mixed = slots if order is None else order.permutation(slots)
    pages = mixed // page_size
    return np.concatenate([mixed[pages == page][:2] for page in np.unique(pages)] or [mixed])


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.full((*tensor.shape, 2), _BETWEEN, dtype=tensor.dtype, device=tensor.device)
    wide[..., 0] = tensor
    return wide[..., 0]


def _some(values: list[int]) -> str:
    return f"{values[:_SHOWN]}{f' and {len(values) - _SHOWN} more' * (len(values) > _SHOWN)}"
