"""The mutants themselves; all of them are run by `nox -s mutants`, one of each cheap kind here."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutant import HERE, all_mutants
from run_mutants import Verdict, run_mutant, table

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.runner import Runner, Selection

ONE_OF_EACH_KIND = ("no_contract_version", "TotalAndFreeSwapped", "imports_a_lost_name")


def test_every_level_has_mutants_and_each_names_a_check() -> None:
    mutants = all_mutants()
    assert [one.name for one in mutants if one.check not in registered()] == []
    assert max(Counter(one.name for one in mutants).values()) == 1
    assert len(mutants) >= 60
    assert {Level.parse(one.level) for one in mutants} == set(Level)
    assert all(one.defect and one.says for one in mutants)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_mutant_is_killed_by_its_check(name: str) -> None:
    (mutant,) = [one for one in all_mutants() if one.name == name]
    assert run_mutant(mutant).problem is None


def test_a_failure_is_the_same_when_the_printed_command_runs_it_alone() -> None:
    """Among other checks, and then with the options of the command that the report prints."""
    searches = "memory.random_histories_add_up"
    mutant = next(one for one in all_mutants() if one.check == searches)
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    checks = ("memory.allocator_lends_every_page_once", searches)
    selection = Selection(f"mutant={mutant.location}", checks=checks, seed=5, environment=environment)
    among = next(one for one in Runner(selection).run() if one.id == searches)
    assert among.status == "failed"
    assert among.rerun is not None
    words = shlex.split(among.rerun)
    options = {name: words[words.index(name) + 1] for name in ("--platform", "--check", "--seed")}
    (alone,) = Runner(
        Selection(
            options["--platform"],
            checks=(options["--check"],),
            seed=int(options["--seed"]),
            environment=environment,
        )
    ).run()
    assert (alone.what, alone.case, alone.seed) == (among.what, among.case, among.seed)


def test_the_table_shows_a_survivor() -> None:
    from sglang_platform.conformance.outcome import Outcome

    mutant = all_mutants()[0]
    alive = Verdict(mutant, Outcome(mutant.check, mutant.level, "", "passed"))
    text = table([alive])
    assert "0 of 1" in text
    assert "**nothing**" in text
    assert "it survives" in text
