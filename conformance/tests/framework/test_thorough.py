"""What `--thorough` adds: products where the default tier spreads, and other draws of what is drawn."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import conformance

from sglang_platform.conformance.check import Check, registered
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.subject import Subject
from sglang_platform.conformance.tiers import named_cases

REFERENCE = "sglang_platform.conformance.reference.platform:ReferencePlatform"
STORES = "memory.store_reads_back"


@dataclass(frozen=True)
class Drawn:
    number: int


def _drawn(subject: Subject, rng: random.Random) -> Iterator[Drawn]:
    yield Drawn(0)
    yield Drawn(rng.randrange(1, 1 << 40))


def _nothing(subject: Subject, case: Drawn) -> None:
    """Draws nothing."""


def _numbers(subject: Subject, case: Drawn) -> None:
    """Draws numbers of its own."""
    subject.torch_rng()


def _run(function: Callable[[Subject, Drawn], None], *, thorough: bool) -> list[tuple[str, int]]:
    """(name, seed) of each case that is run."""
    check = Check("memory.x", Level.MEMORY, function, (), _drawn, "do it", ("none",), "source", 60)
    subject = Subject("nobody", thorough=thorough)
    seeds = []
    for name, case in named_cases(check, subject, 5):
        seeds.append((name, subject._seed))
        function(subject, case)
    return seeds


def test_the_default_tier_runs_each_case_once() -> None:
    for function in (_nothing, _numbers):
        assert [seed for _, seed in _run(function, thorough=False)] == [5, 5]


def test_thorough_draws_again_what_is_drawn_and_repeats_nothing_else() -> None:
    cases = [name for name, _ in _run(_nothing, thorough=True)]
    assert cases.count("number=0") == 1
    assert len(set(cases)) == len(cases) == 5  # the one that is drawn four times
    own = _run(_numbers, thorough=True)
    assert [name for name, _ in own if name.startswith("number=0")] == [
        "number=0",
        *(f"number=0#{n}" for n in (2, 3, 4)),
    ]
    assert len({seed for name, seed in own if name.startswith("number=0")}) == 4


@pytest.mark.usefixtures("chosen_here")
@pytest.mark.long
def test_thorough_keeps_the_cases_of_the_default_tier_and_adds_to_them() -> None:
    more = 0
    for check in registered().values():
        if check.cases is None or check.level not in (Level.MEMORY, Level.KERNELS):
            continue
        names: list[set[str]] = []
        for thorough in (False, True):
            subject = Subject("reference", location=REFERENCE, thorough=thorough)
            if any(requirement.why_not(subject) for requirement in check.requires):
                break
            names.append({name for name, _ in named_cases(check, subject, 0)})
        if len(names) == 2:
            assert names[0] <= names[1], check.id
            more += len(names[0]) < len(names[1])
    assert more > 20


@pytest.mark.long
def test_the_command_runs_them_and_the_report_says_so(tmp_path: Path) -> None:
    counts = []
    for words in ((), ("--thorough",)):
        run = conformance(
            "--platform", f"reference={REFERENCE}", "--check", STORES, *words, "--json", folder=tmp_path
        )
        document = json.loads(run.stdout)
        assert document["run"]["thorough"] is bool(words)
        (outcome,) = document["outcomes"]
        assert outcome["status"] == "passed"
        counts.append(outcome["cases"])
    assert counts[1] > 3 * counts[0]


def test_a_defect_at_a_size_that_only_thorough_tries_is_found(run_odd: Callable[..., list[Outcome]]) -> None:
    (default,) = run_odd("WrongInOneCombination", STORES)
    (thorough,) = run_odd("WrongInOneCombination", STORES, thorough=True)
    assert default.status == "passed", default.what
    assert thorough.status == "failed"
    assert thorough.rerun is not None
    assert "--thorough" in thorough.rerun


@pytest.mark.sample(2)
@pytest.mark.parametrize(("tier", "status"), [("thorough", "expected_failure"), ("default", "failed")])
def test_an_expectation_may_be_of_one_tier(
    run_odd: Callable[..., list[Outcome]], tmp_path: Path, tier: str, status: str
) -> None:
    from sglang_platform.conformance.expected import read_vendor_file

    file = tmp_path / "conformance.toml"
    file.write_text(f'[expected_failures]\n"{STORES}" = {{ reason = "a known one", tier = "{tier}" }}\n')
    vendor_file = read_vendor_file(file, list(registered()))
    (outcome,) = run_odd("WrongInOneCombination", STORES, thorough=True, vendor_file=vendor_file)
    assert outcome.status == status, outcome.what
