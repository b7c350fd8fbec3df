"""What is chosen: by globs over checks and cases, by words, by an earlier report, and as a part of the parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import BAD, FACTORIES, GOOD, NAMED, conformance

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.expression import Expression
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.profiles import profile
from sglang_platform.conformance.selection import Selection, UnknownCheck
from sglang_platform.conformance.shard import Shard


def _ids(**fields: object) -> list[str]:
    return [one.id for one in Selection("odd", **fields).chosen()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name", "fits"),
    [
        ("attention", "kernels.decode_attention", True),
        ("ATTENTION", "kernels.decode_attention", True),
        ("attention and not decode", "kernels.decode_attention", False),
        ("not decode or attention", "kernels.decode_attention", True),
        ("not (decode or attention)", "kernels.decode_attention", False),
        ("not not decode", "kernels.decode_attention", True),
        ("mla or decode and extend", "kernels.mla_attention", True),  # `and` binds closer
        ("(mla or decode) and extend", "kernels.mla_attention", False),
        ("kernels.decode", "kernels.decode_attention", True),
        ("lambda or 1+1 or None or True or word_0", "kernels.decode_attention", False),
        ("not\n mla", "kernels.decode_attention", True),
    ],
)
def test_words_are_read_as_pytest_reads_them(text: str, name: str, fits: bool) -> None:
    assert Expression(text).fits(name) is fits


@pytest.mark.parametrize(
    "text", ["", "and", "a and", "a or or b", "(a", "a)", "a b", "not", "()", "a (b)", "(a)(b)", "(" * 9999]
)
def test_what_is_no_expression_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no expression: .+; it takes words"):
        Expression(text)


def test_words_choose_of_what_would_run() -> None:
    chosen = _ids(expression=Expression("store and not fp8"))
    assert "memory.store_reads_back" in chosen
    assert all("store" in name and "fp8" not in name for name in chosen)
    every = [one.id for one in registered().values() if not one.level.on_request]
    assert set(chosen) == {name for name in every if "store" in name and "fp8" not in name}
    with pytest.raises(UnknownCheck, match="--level names those on request"):
        _ids(expression=Expression("hostile_requests"))
    assert _ids(expression=Expression("hostile_requests"), levels=(Level.FEATURES,))


def test_globs_choose_checks_and_cases() -> None:
    assert set(_ids(checks=("graphs.*",))) == {name for name in registered() if name.startswith("graphs.")}
    selection = Selection("odd", checks=("memory.*[*dtype=float16*]", "memory.store_*", "kernels.op_values"))
    known = registered()
    assert {one.id for one in selection.chosen()} >= {"memory.move_is_as_if_all_were_read_first"}
    assert selection.cases_of(known["memory.move_is_as_if_all_were_read_first"]) == ("*dtype=float16*",)
    assert selection.cases_of(known["memory.store_reads_back"]) == ()  # named whole as well
    assert selection.cases_of(known["kernels.op_values"]) == ()
    with pytest.raises(UnknownCheck, match=r"no check fits 'memori\.\*'"):
        _ids(checks=("memori.*",))


def test_every_check_is_in_one_shard_and_those_that_share_processes_stay_together() -> None:
    whole, known = _ids(), registered()
    for count in (1, 2, 3, 7):
        shards = [_ids(shard=Shard(n, count)) for n in range(1, count + 1)]
        assert sorted(name for one in shards for name in one) == sorted(whole)
        assert sum(any(name.startswith("host.") for name in one) for one in shards) == 1
        modules = [
            {known[name].function.__module__ for name in one if not name.startswith("host.")}
            for one in shards
        ]
        assert sum(map(len, modules)) == len(set().union(*modules))
    limits = [sum(known[name].seconds for name in _ids(shard=Shard(n, 2))) for n in (1, 2)]
    assert max(limits) < 1.1 * min(limits)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/", "/3", "a/b", "1/0", "-1/3"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="1/3"):
        Shard.parse(text)


@pytest.mark.long
def test_a_glob_over_cases_runs_these_alone(tmp_path: Path) -> None:
    def cases(*names: str) -> int:
        words = [word for name in names for word in ("--check", name)]
        run = conformance("--platform", GOOD, *words, "--json", folder=tmp_path)
        (outcome,) = json.loads(run.stdout)["outcomes"]
        assert outcome["status"] == "passed", outcome
        return int(outcome["cases"])

    half = cases("memory.store_reads_back[*dtype=float16*]")
    assert 0 < half < cases("memory.store_reads_back")
    run = conformance("--platform", GOOD, "--check", "memory.store_reads_back[rows=9]", folder=tmp_path)
    assert run.returncode == 3
    assert "no case has such a name" in run.stdout


@pytest.mark.long
def test_only_what_failed_is_run_again(tmp_path: Path) -> None:
    words = ["--check", FACTORIES, "--check", NAMED, "--report", "first"]
    assert conformance("--platform", BAD, *words, folder=tmp_path).returncode == 1
    again = conformance("--platform", BAD, "--last-failed", "first", "--report", "again", folder=tmp_path)
    assert again.returncode == 1, again.stdout + again.stderr
    document = json.loads((tmp_path / "again" / "report.json").read_text())
    assert [one["id"] for one in document["outcomes"]] == [FACTORIES]
    assert not document["run"]["whole"]
    repaired = conformance("--platform", GOOD, "--last-failed", "again", "--report", "good", folder=tmp_path)
    assert (repaired.returncode, "incomplete" in repaired.stdout) == (0, True)
    nothing = conformance("--platform", GOOD, "--last-failed", "good", folder=tmp_path)
    assert (nothing.returncode, "nothing failed in the report good" in nothing.stderr) == (2, True)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-k", "store and"), "is no expression"),
        (("-k", "no_such_thing"), "no check that runs fits"),
        (("--check", "memori.*"), "no check fits 'memori.*'"),
        (("--shard", "4/3"), "such as 1/3"),
        (("--resume",), "name it"),
        (("--last-failed", "nowhere.json"), "nowhere.json is no report"),
    ],
)
def test_what_cannot_be_chosen_ends_with_2_in_a_line(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    run = conformance("--platform", GOOD, *words, folder=tmp_path)
    assert run.returncode == 2, run.stdout
    assert said in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.long
def test_all_that_a_profile_requires_and_passes_ends_with_0(tmp_path: Path) -> None:
    words = [word for name in profile("offline").checks for word in ("--check", name)]
    run = conformance(
        "--platform", "example_oot", "--profile", "offline", *words, folder=tmp_path, seconds=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.rstrip().endswith("conformant to offline")
