"""The mutants that are a changed line of the reference platform, each with its check, all in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from in_process import first_failure, of_speed
from mutant import all_mutants
from patched_reference import PATCHES, patched

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.reference.platform import ReferencePlatform

_SLOW = (
    "PrefillTokenByToken",
    "FreeSearchesTheList",
    "LengthsByTheirSum",
    "KeepsEveryOutput",
    "EveryLengthIsKept",
    "LentPagesAreTraced",
)
IN_PROCESS = [one for one in all_mutants() if one.name in PATCHES and one.level != Level.DISTRIBUTED.label]
FIRST = {
    registered()[one.check].function.__module__: one.name
    for one in reversed(IN_PROCESS)
    if one.name not in _SLOW and not of_speed(registered()[one.check])
}
"""In CI each file of checks has one, but for checks that compare times, to which no test is held; the others are
`long`."""


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(one, id=one.name, marks=() if one.name in FIRST.values() else pytest.mark.long)
        for one in IN_PROCESS
    ],
)
def test_it_is_killed_by_its_check_with_a_message_that_names_the_cause(mutant) -> None:  # type: ignore[no-untyped-def]
    killer, message = first_failure(patched(mutant.name), [mutant.check + mutant.cases])
    assert killer == mutant.check
    assert mutant.says in message


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_is_wrong_with_the_reference(seed: int) -> None:
    levels = (Level.MEMORY, Level.KERNELS, Level.GRAPHS)
    checks = [
        name
        for name, one in registered().items()
        if one.level in levels and "none" in one.hosts and not of_speed(one)
    ]
    assert first_failure(ReferencePlatform, checks, seed) == (None, "")


def test_a_patch_of_text_that_is_not_there_is_refused() -> None:
    from patched_reference import Patch

    with pytest.raises(ValueError, match="0 times, not once"):
        Patch("pools.py", "no such line", "").text()
