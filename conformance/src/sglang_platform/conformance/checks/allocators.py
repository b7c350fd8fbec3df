"""Level 3: the paged allocator against a model that knows nothing but who has which page.

A script is a series of calls; the history judges each of them (`AllocatorHistory`), and says what to do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.allocator_fixes import KEPT
from sglang_platform.conformance.oracles.allocator_history import AllocatorHistory
from sglang_platform.conformance.oracles.allocator_model import AllocatorFault
from sglang_platform.conformance.oracles.allocator_scripts import OF_SIZE, SCRIPTS
from sglang_platform.conformance.oracles.allocator_search import search
from sglang_platform.conformance.requirement import Requirement, all_of, page_size, paged_allocator
from sglang_platform.conformance.subject import Subject

__all__ = ["PAGED", "alloc_decode", "alloc_extend", "paged_sizes"]

_FEW = 2048
"""Pages of which a script of many is tried, where it fails: whether their number is what fails."""

PAGED: tuple[Requirement, ...] = (all_of(paged_allocator(), page_size(at_least=2)),)


def paged_sizes(subject: Subject) -> list[int]:
    return [size for size in subject.declares.page_sizes if size > 1]


@dataclass(frozen=True)
class Script:
    """`given` are further arguments of the script of that name; `rest` are slots that fill no page; `need_sort` is the
    allocator's."""

    script: str
    page_size: int
    pages: int
    rest: int = 0
    given: dict[str, Any] = field(default_factory=dict)
    need_sort: bool = False


def _makes(subject: Subject) -> Callable[[int, int, bool], Any]:
    return lambda size, page_size, need_sort: subject.allocator(size, page_size, need_sort=need_sort)


def _history(subject: Subject, case: Any, **more: Any) -> AllocatorHistory:
    return AllocatorHistory(_makes(subject), case.pages, case.page_size, rest=case.rest, **more)


def _run(subject: Subject, case: Script) -> None:
    fault, calls = _fault(subject, case)
    if fault is None:
        return
    what, fix = fault.what, fault.fix
    if _fault(subject, case, written_over=False)[0] is None:
        what, fix = f"where callers write over the tensors of their calls, {what}", KEPT
    elif case.script in OF_SIZE and _fault(subject, replace(case, pages=_FEW))[0] is None:
        fix = OF_SIZE[case.script]
    raise CheckFailed(what, fix=fix, case={**asdict(case), "calls": calls}) from fault


def _fault(subject: Subject, case: Script, **more: Any) -> tuple[AllocatorFault | None, list[str]]:
    """What is wrong, and the calls up to it."""
    history: AllocatorHistory | None = None
    try:
        history = _history(subject, case, need_sort=case.need_sort, **more)
        SCRIPTS[case.script](history, random.Random(subject.seed), **case.given)
    except AllocatorFault as fault:
        return fault, history.calls if history else []
    return None, []


# The foundation


def pagings(subject: Subject, rng: random.Random) -> Iterator[Script]:
    """Every page size, with whole pages and with slots left over."""
    for size in paged_sizes(subject):
        yield Script("every_page", size, 1)
        yield Script("every_page", size, 5, rng.randrange(1, size))


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    founds="paged allocator",
    fix="lend pages 1 to size // page_size, each once: page 0 is for padding, and slots that fill no page are not lent",
)
def allocator_lends_every_page_once(subject: Subject, case: Script) -> None:
    """All pages can be lent, none twice and never page 0; then the answer is None; freed, all can be lent again."""
    _run(subject, case)


# Every call


@dataclass(frozen=True)
class Search:
    page_size: int


def searches(subject: Subject, rng: random.Random) -> Iterator[Search]:
    sizes = paged_sizes(subject)
    yield from map(Search, dict.fromkeys((*sizes[:2], sizes[-1])))


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=searches,
    founds="paged allocator",
    fix="make each call leave exactly the pages free that nobody holds",
    seconds=180,
)
def random_histories_add_up(subject: Subject, case: Search) -> None:
    """Thousands of calls in random order, as a scheduler makes them, of requests that end anywhere in a page and at its
    edges, frees of every kind alone and in groups, shared prefixes, `resize()` and `need_sort`: every answer is legal,
    available_size() adds up after each, and backup and restore bring back the state as it was."""
    failure = search(_makes(subject), case.page_size, subject.seed)
    if failure is not None:
        given = {"page_size": case.page_size, "calls": failure.calls}
        raise CheckFailed(failure.what, fix=failure.fix, case=given)


# Sizes that are served


def served_sizes(subject: Subject, rng: random.Random) -> Iterator[Script]:
    """Batches of more requests than a kernel may take at once or a block has; more slots and pages than 16 bits
    number; more slots than 32-bit floats do, of pages so wide that they are quickly lent."""
    sizes = paged_sizes(subject)
    for requests, size in ((33, sizes[0]), (80, sizes[0]), (33, sizes[-1])):
        yield Script("crowd", size, 2 * requests - 1, given={"requests": requests})
    for size in sizes:
        yield Script("served", size, 150_000 // size, 150_000 % size, {"requests": 520})
    yield Script("thousands_of_pages", sizes[0], 2**12, need_sort=True)
    yield Script("thousands_of_pages", sizes[0], 2**16 + 2**12)
    if sizes[-1] >= 16:
        yield Script("past_32_bit_floats", sizes[-1], (2**24 + 2**20) // sizes[-1])


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=served_sizes,
    seconds=300,
    fix="number slots and pages in 64 bits all the way, size working memory by the batch, and give every page back",
)
def allocator_at_served_sizes(subject: Subject, case: Script) -> None:
    """Hundreds of requests at once, requests of tens of thousands of tokens, more pages than 2**16 and more slots than
    2**24: each token lies at its place of a page that no other request has, and what is free adds up."""
    _run(subject, case)


# Frees that are none

_TWICE: dict[str, Callable[[Any, torch.Tensor, int], Any]] = {
    "": lambda a, slots, size: a.free(slots),
    ", with a call between that did not fit,": lambda a, slots, size: (
        a.alloc(a.available_size() + size),
        a.free(slots),
    ),
    " in one group": lambda a, slots, size: (a.free(slots), a.free_group_end()),
    " by its number in one group": lambda a, slots, size: (
        a.free_page_ids(slots[:1] // size),
        a.free_group_end(),
    ),
}


@check(
    level=Level.MEMORY,
    requires=PAGED,
    cases=pagings,
    fix="in debug mode (SGLANG_PLATFORM_DEBUG_MEMORY=1 or SGLANG_DEBUG_MEMORY_POOL=1) raise when a page is freed that"
    " is free already; core's allocator does, where its free() is used",
)
def double_free_is_refused(subject: Subject, case: Script) -> None:
    """With the debug variable set, freeing a page a second time is an error, and the page is not lent twice."""
    for how, again in _TWICE.items():
        history, grouped = _history(subject, case, debug=True), "group" in how
        history.alloc(1)
        slots = torch.from_numpy(history.model.requests[1]).to(subject.device)
        if grouped:
            history.begin_group()
        history.free(1, how="numbers" if "number" in how else "slots")
        try:
            again(history.allocator, slots, case.page_size)
        except Exception:  # noqa: BLE001 - the host asserts, core raises an error of its own
            continue
        page, available = int(slots[0]) // case.page_size, history.allocator.available_size()
        whole = case.pages * case.page_size
        expect(
            grouped and available == whole,  # SGLang's own takes both of a group for one page
            f"page {page} was freed twice{how} without an error; available_size() is {available} of {whole}",
        )


def alloc_extend(
    subject: Subject, allocator: Any, before: list[int], after: list[int], last: list[int]
) -> Any:
    prefix, seq, loc = torch.tensor(before), torch.tensor(after), torch.tensor(last)
    device = subject.device
    total = sum(after) - sum(before)
    return allocator.alloc_extend(prefix.to(device), prefix, seq.to(device), seq, loc.to(device), total)


def alloc_decode(subject: Subject, allocator: Any, after: list[int], last: list[int]) -> Any:
    seq = torch.tensor(after)
    return allocator.alloc_decode(seq.to(subject.device), seq, torch.tensor(last, device=subject.device))
