"""The search for a history that an allocator gets wrong, and the shortest form of it.

A step is a name and two small numbers, which are read against the present state ("the request at place a modulo their
number"). So every series of steps is a legal history, and stays one when steps are left out. Half of the walks leave
out whole kinds of steps, and so reach states that a walk of all kinds seldom does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from sglang_platform.conformance.oracles.allocator_history import AllocatorHistory, Make
from sglang_platform.conformance.oracles.allocator_model import AllocatorFault

__all__ = ["PAGES", "STEPS", "AllocatorFailure", "Step", "Walk", "search"]

PAGES = 7


class Step(NamedTuple):
    name: str
    a: int
    b: int


class AllocatorFailure(NamedTuple):
    """What went wrong, what to do, and the shortest series of calls found that shows it."""

    what: str
    fix: str
    calls: list[str]


class _Start(NamedTuple):
    need_sort: bool = False
    debug: bool = False
    rest: int = 0


class Walk:
    """Steps through one history."""

    def __init__(self, history: AllocatorHistory) -> None:
        self.history = history
        self.saved: Any = None
        self.dropped_group = False

    def take(self, step: Step) -> None:
        """Make the call, where there is something that it can be made with. Raises AllocatorFault."""
        STEPS[step.name][1](self, step.a, step.b)

    def alloc(self, a: int, b: int) -> None:
        # Little, or anything up to more than there is.
        self.history.alloc(a % 3 if b % 2 else a % (self.history.model.pages + 2))

    def extend(self, a: int, b: int) -> None:
        numbers, new = random.Random(a * 1024 + b), self.history.new_name()
        batch = {name: self._more(numbers, name) for name in self._some(numbers, a % 3)}
        batch |= {new + at: max(1, self._more(numbers, new + at)) for at in range(b % 3)}
        mixed = numbers.sample(list(batch.items()), len(batch))
        if mixed and self.history.page_size > 1:
            self.history.extend(dict(mixed), counted=b % 2 == 1)

    def _more(self, numbers: random.Random, name: int) -> int:
        """Any number of tokens, or so many that the request ends at the end of a page, or one before or behind it."""
        size = self.history.page_size
        if numbers.random() < 0.5:
            return numbers.randint(0, 3 * size)
        end_of_page = -self.history.model.tokens(name) % size
        return max(0, end_of_page + numbers.randint(-1, 1) + numbers.randint(0, 2) * size)

    def decode(self, a: int, b: int) -> None:
        names = self._some(random.Random(a * 1024 + b), 1 + b % 4)
        if names and self.history.page_size > 1:
            self.history.decode(names)

    def fork(self, a: int, b: int) -> None:
        """A request begins with a cached prefix of another."""
        whole = [name for name, slots in self._requests() if len(slots) >= self.history.page_size]
        if whole:
            name = whole[a % len(whole)]
            pages = 1 + b % (self.history.model.tokens(name) // self.history.page_size)
            self.history.model.fork(name, self.history.new_name(), pages)

    def free(self, a: int, b: int) -> None:
        numbers = random.Random(a * 1024 + b)
        names = self._some(numbers, 1 + a % 2)
        if names:
            grouped = self.history.model.held_by_group is not None
            hows = ("slots", "some", "slots", "halves" if grouped else "some", "numbers", "numbers")
            how: Any = hows[b % 6 if self.history.page_size > 1 else 0]
            self.history.free(*names, how=how, numbers=numbers)

    def segment(self, a: int, b: int) -> None:
        for name in self._at(a) if self.history.has("free_segment") else ():
            size = self.history.page_size
            whole = self.history.model.tokens(name) // size * size
            keep = max(self.history.model.shared(name), min(b % 4 * size, whole))
            self.history.free(name, how="segment", keep=keep)

    def segments(self, a: int, b: int) -> None:
        methods = list(filter(self.history.has, ("free_segments", "free_full_segments")))
        for name in self._at(a) if methods else ():
            size = self.history.page_size
            if not self.history.model.shared(name):
                cut = size * (1 + b // 4 % max(1, self.history.model.tokens(name) // size))
                self.history.free_segments(name, methods[b % len(methods)], cut, b % size)

    def group(self, a: int, b: int) -> None:
        if self.history.model.held_by_group is not None or (self.dropped_group and b % 2):
            self.history.end_group()
            self.dropped_group = False
        else:
            self.history.begin_group()

    def backup(self, a: int, b: int) -> None:
        if self.history.has("backup_state") and self.history.model.held_by_group is None:
            self.saved = self.history.backup()

    def restore(self, a: int, b: int) -> None:
        if self.saved is not None and self.history.model.held_by_group is None:
            self.history.restore(self.saved)

    def clear(self, a: int, b: int) -> None:
        grouped = self.history.model.held_by_group is not None
        if b % 4 == 0 or grouped:  # seldom, or histories stay short
            self.dropped_group |= grouped
            self.history.clear()
            self.saved = None

    def resize(self, a: int, b: int) -> None:
        if b % 8 == 0 and self.history.has("resize") and self.history.model.held_by_group is None:
            self.history.resize((1 + a % 9) * self.history.page_size + b % self.history.page_size)
            self.saved = None

    def _requests(self) -> list[tuple[int, Any]]:
        return sorted(self.history.model.requests.items())

    def _some(self, numbers: random.Random, most: int) -> list[int]:
        known = [name for name, _ in self._requests()]
        return numbers.sample(known, min(len(known), most))

    def _at(self, a: int) -> list[int]:
        known = [name for name, _ in self._requests()]
        return known[a % len(known) :][:1] if known else []


STEPS: dict[str, tuple[int, Callable[[Walk, int, int], None]]] = {
    "alloc": (4, Walk.alloc),
    "extend": (8, Walk.extend),
    "decode": (8, Walk.decode),
    "fork": (2, Walk.fork),
    "free": (6, Walk.free),
    "segment": (2, Walk.segment),
    "segments": (2, Walk.segments),
    "group": (5, Walk.group),
    "backup": (3, Walk.backup),
    "restore": (4, Walk.restore),
    "clear": (2, Walk.clear),
    "resize": (1, Walk.resize),
}
"""How often a walk takes each step, so that pages are lent, run out and come back in turn, and what it does."""


def search(
    make: Make, page_size: int, seed: int, *, walks: int = 120, steps: int = 40
) -> AllocatorFailure | None:
    """Random walks; None where every answer is as it must be."""
    numbers = random.Random(seed)
    for at in range(walks):
        start = _Start(numbers.random() < 0.5, numbers.random() < 0.2, numbers.randrange(64))
        kinds = [name for name in STEPS if at % 2 == 0 or numbers.random() < 0.7] or ["alloc"]
        names = numbers.choices(kinds, [STEPS[name][0] for name in kinds], k=steps)
        walk = [Step(name, numbers.randrange(32), numbers.randrange(32)) for name in names]
        if _failure(make, page_size, start, walk):
            return _shortest(make, page_size, start, walk)
    return None


def _failure(make: Make, page_size: int, start: _Start, steps: list[Step]) -> AllocatorFailure | None:
    calls: list[str] = []
    try:
        history = AllocatorHistory(make, PAGES, page_size, **start._asdict())
        calls, walk = history.calls, Walk(history)
        for step in steps:
            walk.take(step)
    except AllocatorFault as fault:
        return AllocatorFailure(fault.what, str(fault.fix), list(calls))
    return None


def _shortest(make: Make, page_size: int, start: _Start, steps: list[Step]) -> AllocatorFailure:
    def fails(*tried: Any) -> bool:
        return _failure(make, page_size, *tried) is not None

    steps = _fewer(steps, lambda left: fails(start, left))
    for alone in (Step(steps[-1].name, a, b) for a in range(9) for b in range(4)) if steps else ():
        if fails(start, [alone]):
            steps = [alone]
            break
    for name, plain in _Start()._asdict().items():
        simpler = start._replace(**{name: plain})
        start = simpler if fails(simpler, steps) else start
    for place, step in enumerate(steps):
        for smaller in sorted({(a, b) for a in (0, 1, 2, step.a) for b in (0, 1, 2, step.b)}):
            changed = [*steps[:place], Step(step.name, *smaller), *steps[place + 1 :]]
            if fails(start, changed):
                steps = changed
                break
    found = _failure(make, page_size, start, _fewer(steps, lambda left: fails(start, left)))
    return found or AllocatorFailure(
        "the same calls give another answer the second time",
        "let the answer depend on the calls alone; keep no state on the class or in a module",
        [],
    )


def _fewer(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Leave out what is not needed, the largest pieces first."""
    piece = max(1, len(steps) // 2)
    while piece:
        place = 0
        while place < len(steps):
            rest = steps[:place] + steps[place + piece :]
            if fails(rest):
                steps = rest
            else:
                place += piece
        piece //= 2
    return steps
