"""The search for a history that an allocator gets wrong, and the shortest form of it.

Two ways to make histories: plain random walks, which are many, and a hypothesis state machine, which leaves out whole
kinds of steps in a history and so reaches states that a walk seldom does. What either finds is shortened by leaving
out steps, and made smaller in its numbers, as long as it still fails.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from sglang_platform.conformance.oracles.allocator_history import STEPS, AllocatorHistory, Make, Step
from sglang_platform.conformance.oracles.allocator_model import AllocatorFault

__all__ = ["AllocatorFailure", "search_with_hypothesis", "search_with_walks"]

# How often a walk takes each step of STEPS, so that pages are lent, run out and come back in turn.
_WEIGHTS = (4, 8, 8, 6, 2, 2, 3, 2, 2, 1)


class AllocatorFailure(NamedTuple):
    """What went wrong, what to do, and the shortest series of calls found that shows it."""

    what: str
    fix: str
    calls: list[str]


class _Start(NamedTuple):
    need_sort: bool
    rest: int


def search_with_walks(
    make: Make, page_size: int, seed: int, *, walks: int = 60, steps: int = 40
) -> AllocatorFailure | None:
    """Random walks; None where every answer is as it must be."""
    numbers = random.Random(seed)
    for _ in range(walks):
        start = _Start(numbers.random() < 0.5, numbers.randrange(64))
        names = numbers.choices(STEPS, _WEIGHTS, k=steps)
        walk = [Step(name, numbers.randrange(32), numbers.randrange(32)) for name in names]
        if _fails(make, page_size, start, walk):
            return _shortest(make, page_size, start, walk)
    return None


def search_with_hypothesis(
    make: Make, page_size: int, seed: int, *, examples: int = 40, steps: int = 30
) -> AllocatorFailure | None:
    """Histories of a hypothesis state machine; None where every answer is as it must be."""
    failed: list[tuple[_Start, list[Step]]] = []
    machine = _machine(make, page_size, failed)
    machine._hypothesis_internal_use_seed = seed
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                phases=(Phase.generate,),
                database=None,
                deadline=None,
                report_multiple_bugs=False,
                print_blob=False,
                verbosity=Verbosity.quiet,
                suppress_health_check=list(HealthCheck),
            ),
        )
    except Exception:
        if not failed:
            raise
        # Found again without hypothesis around it, and shortened.
        return _shortest(make, page_size, *failed[0])
    return None


def _machine(make: Make, page_size: int, failed: list[tuple[_Start, list[Step]]]) -> Any:
    numbers = st.integers(0, 31)

    class Machine(RuleBasedStateMachine):
        @initialize(need_sort=st.booleans(), rest=st.integers(0, 63))
        def start(self, need_sort: bool, rest: int) -> None:
            self.begun = _Start(need_sort, rest)
            self.taken: list[Step] = []
            self.history: AllocatorHistory | None = None
            try:
                self.history = AllocatorHistory(make, page_size, need_sort=need_sort, rest=rest)
            except AllocatorFault:
                failed.append((self.begun, []))
                raise

        def take(self, step: Step) -> None:
            self.taken.append(step)
            try:
                assert self.history is not None
                self.history.apply(step)
            except AllocatorFault:
                failed.append((self.begun, list(self.taken)))
                raise

    for name in STEPS:
        setattr(Machine, name, rule(a=numbers, b=numbers)(_step_of_machine(name)))
    return Machine


def _step_of_machine(name: str) -> Any:
    def step(self: Any, a: int, b: int) -> None:
        self.take(Step(name, a, b))

    step.__name__ = name
    return step


def _fails(make: Make, page_size: int, start: _Start, steps: list[Step]) -> bool:
    return _failure(make, page_size, start, steps) is not None


def _failure(make: Make, page_size: int, start: _Start, steps: list[Step]) -> AllocatorFailure | None:
    calls: list[str] = []
    try:
        history = AllocatorHistory(make, page_size, need_sort=start.need_sort, rest=start.rest)
        calls = history.calls
        for step in steps:
            history.apply(step)
    except AllocatorFault as fault:
        return AllocatorFailure(fault.what, fault.fix, list(calls))
    return None


def _shortest(make: Make, page_size: int, start: _Start, steps: list[Step]) -> AllocatorFailure:
    steps = _fewer(make, page_size, start, steps)
    for alone in (Step(steps[-1].name, a, b) for a in range(9) for b in range(4)) if steps else ():
        if _fails(make, page_size, start, [alone]):
            steps = [alone]
            break
    for simpler in (_Start(False, 0), _Start(start.need_sort, 0), _Start(False, start.rest)):
        if _fails(make, page_size, simpler, steps):
            start = simpler
            break
    for place, step in enumerate(steps):
        for smaller in sorted({(a, b) for a in (0, 1, 2, step.a) for b in (0, 1, 2, step.b)}):
            changed = [*steps[:place], Step(step.name, *smaller), *steps[place + 1 :]]
            if _fails(make, page_size, start, changed):
                steps = changed
                break
    steps = _fewer(make, page_size, start, steps)
    found = _failure(make, page_size, start, steps)
    if found is None:
        return AllocatorFailure(
            "the same calls give another answer the second time",
            "let the answer depend on the calls alone; keep no state on the class or in a module",
            [],
        )
    return found


def _fewer(make: Make, page_size: int, start: _Start, steps: list[Step]) -> list[Step]:
    """Leave out what is not needed, the largest pieces first."""
    piece = max(1, len(steps) // 2)
    while True:
        place = 0
        while place < len(steps):
            rest = steps[:place] + steps[place + piece :]
            if _fails(make, page_size, start, rest):
                steps = rest
            else:
                place += piece
        if piece == 1:
            return steps
        piece //= 2
