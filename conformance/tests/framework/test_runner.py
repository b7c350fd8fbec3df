"""What a plugin does to its process is told of the check in progress, and the next checks are run all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.expected import VendorFile, read_vendor_file
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.runner import Selection, UnknownCheck
from sglang_platform.conformance.seeds import seed_of
from sglang_platform.core.errors import ConfigurationError

FACTORIES, AFTER = "contract.factories_answer_with_classes", "contract.identity_agrees_with_enum"


Two = Callable[..., tuple[Outcome, Outcome]]


@pytest.fixture
def two(run_odd: Callable[..., list[Outcome]]) -> Two:
    """The outcome of the check that meets the defect, and of the other."""

    def run(location: str, **fields: object) -> tuple[Outcome, Outcome]:
        found = {outcome.id: outcome for outcome in run_odd(location, FACTORIES, AFTER, **fields)}
        return found[FACTORIES], found[AFTER]

    return run


def test_a_crash_is_told_of_the_check_and_the_next_is_run(two: Two) -> None:
    crashed, other = two("Crashes")
    assert (crashed.status, crashed.failure) == ("failed", "crash")
    assert "SIGSEGV" in (crashed.what or "")
    assert "odd_platforms.py" in (crashed.trace or "")  # where it crashed, by faulthandler
    assert other.status == "passed"


@pytest.mark.long
def test_a_hang_is_ended_and_told_where(two: Two) -> None:
    hung, other = two("Hangs", patience=0.3)
    assert (hung.status, hung.failure) == ("failed", "timeout")
    assert "odd_platforms.py" in (hung.trace or "")
    assert hung.seconds < 30
    assert other.status == "passed"


def test_an_exception_is_shown_with_the_plugins_frames_alone(two: Two) -> None:
    raised, other = two("Raises")
    assert (raised.status, raised.failure) == ("failed", "error")
    assert "no such block size" in (raised.what or "")
    assert "odd_platforms.py" in (raised.trace or "")
    assert "worker.py" not in (raised.trace or "")
    assert other.status == "passed"


def test_a_plugin_that_exits_ends_its_check_only(two: Two) -> None:
    ended, other = two("Exits")
    assert ended.status == "failed"
    assert "the driver is too old" in (ended.what or "")
    assert other.status == "passed"


def test_what_a_plugin_prints_spoils_nothing(two: Two) -> None:
    assert [outcome.status for outcome in two("Talks")] == ["passed", "passed"]


def test_a_failure_names_the_command_that_runs_it_alone(run_odd: Callable[..., list[Outcome]]) -> None:
    (outcome,) = run_odd("Raises", FACTORIES, seed=7)
    assert outcome.rerun == (
        "sglang-platform conformance --platform odd=odd_platforms:Raises "
        "--check contract.factories_answer_with_classes --seed 7"
    )


def test_a_platform_that_cannot_be_made_blocks_what_needs_it(run_odd: Callable[..., list[Outcome]]) -> None:
    found = {one.id: one for one in run_odd("Missing", FACTORIES, "contract.platform_is_created")}
    assert found["contract.platform_is_created"].status == "failed"
    assert "Missing" in (found["contract.platform_is_created"].what or "")
    assert found[FACTORIES].status == "blocked"
    assert "contract.platform_is_created" in (found[FACTORIES].why or "")


def test_expected_failures_are_strict(two: Two) -> None:
    file = VendorFile(Path("conformance.toml"), {"expected_failures": {FACTORIES: "known", AFTER: "known"}})
    failing, passing = two("Raises", vendor_file=file)
    assert (failing.status, failing.why) == ("expected_failure", "known")
    assert not failing.is_bad
    assert passing.status == "unexpected_pass"
    assert passing.is_bad


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[expected_failures]\n"contract.identity_agrees_with_enums" = "x"\n',
            ["contract.identity_agrees_with_enum'"],
        ),
        ('[expected_failures]\n"contract.identity_agrees_with_enum" = ""\n', ["no reason"]),
        ("[expected_failure]\n", ["no table 'expected_failure'", "'expected_failures'"]),
        ('[declares]\nsupported_kv_kind = ["mha"]\n', ["supported_kv_kinds"]),
        (
            '[pool_fixtures]\nmy_rows = "my_plugin.testing"\n',
            ["'my_rows' is 'my_plugin.testing', not a place"],
        ),
        ("[expected_failures\n", ["cannot be read"]),
    ],
)
def test_a_wrong_vendor_file_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "conformance.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_vendor_file(path, list(registered()))
    assert [word for word in words if word not in str(refused.value)] == []


def test_an_unknown_check_offers_the_nearest() -> None:
    with pytest.raises(UnknownCheck, match=r"did you mean 'contract\.platform_is_created'"):
        Selection("odd", checks=("contract.platform_is_createt",)).chosen()


def test_levels_are_named_by_number_or_word() -> None:
    assert Level.parse("3") is Level.MEMORY
    assert Level.parse("Memory") is Level.MEMORY
    with pytest.raises(ValueError, match="10 kits"):
        Level.parse("11")


def test_every_check_says_what_it_proves_and_what_to_do() -> None:
    for check in registered().values():
        assert check.id.startswith(f"{check.level.label}."), check.id
        assert len(check.proves) > 20, check.id
        assert len(check.fix) > 15, check.id
        assert all(requirement.means or requirement.name for requirement in check.requires)
    assert {check.level for check in registered().values()} >= set(Level) - {Level.DISTRIBUTED, Level.KITS}


def test_seeds_differ_by_check_and_run_and_are_the_same_everywhere() -> None:
    assert seed_of(0, "memory.a") == 194365721
    assert len({seed_of(run, check) for run in range(3) for check in ("a", "b")}) == 6
