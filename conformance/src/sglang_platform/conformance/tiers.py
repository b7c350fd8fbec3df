"""What is run of a check in the default tier, and what `--thorough` adds: other draws of what is drawn.

The fixtures add of themselves what the tier alone decides (`subject.thorough`): products of what is spread otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sglang_platform.conformance.case_ids import CaseNames, case_id
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.seeds import seed_of

if TYPE_CHECKING:
    from sglang_platform.conformance.check import Check
    from sglang_platform.conformance.subject import Subject

__all__ = ["TIMES", "named_cases"]

TIMES = 10.0
"""By how much the time limit of a check is longer in the thorough tier."""

_ROUNDS = 4
_DRAWN = (Level.MEMORY, Level.KERNELS, Level.GRAPHS)
"""Levels of which checks draw numbers, histories or sizes."""


def named_cases(check: Check, subject: Subject, seed: int) -> Iterator[tuple[str, Any]]:
    """(name, case) of all that are run, with `subject.seed` set for each.

    In the thorough tier the cases of the default tier come first, then those of its own, with another seed, then two
    rounds of the default tier with others.
    A case that was told is run again, as the same case with a number, where the check draws something of its own.
    """
    assert check.cases is not None
    names, told, draws = CaseNames(), set(), set()
    thorough = subject.thorough
    try:
        for number in range(_ROUNDS if thorough and check.level in _DRAWN else 1):
            subject.thorough = number == 1
            subject.seed = seed if number == 0 else seed_of(seed, f"{check.id} {number}")
            for case in check.cases(subject, subject.rng()):
                name = case_id(case)
                if number and name in told and name not in draws:
                    continue
                told.add(name)
                subject.seed_was_read = False
                yield names.of(case), case
                if subject.seed_was_read:
                    draws.add(name)
    finally:
        subject.thorough = thorough
