"""The vendor's file, case by case: failures that are expected, under conditions, and bounds that are wider."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.expected import VendorFile, read_vendor_file
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.core.errors import ConfigurationError

STORES = "memory.store_reads_back"
DECODE = "kernels.decode_attention"
TORCH = metadata.version("torch").partition("+")[0]

Run = Callable[..., Outcome]


def _file(folder: Path, text: str) -> VendorFile:
    path = folder / "conformance.toml"
    path.write_text(text)
    return read_vendor_file(path, list(registered()))


@pytest.fixture
def run(run_odd: Callable[..., list[Outcome]], tmp_path: Path) -> Run:
    """One check on a class of `odd_platforms.py` under the text of a vendor's file."""

    def one(location: str, check: str, text: str = "", **fields: Any) -> Outcome:
        (outcome,) = run_odd(location, check, vendor_file=_file(tmp_path, text), **fields)
        return outcome

    return one


def test_the_cases_that_are_named_are_waived_and_the_check_with_them(run: Run) -> None:
    outcome = run(
        "WrongInHalf", STORES, f'[expected_failures]\n"{STORES}[*dtype=float16*]" = "no half before 3.0"\n'
    )
    assert outcome.status == "expected_failure"
    assert {one["waived"] for one in outcome.failing} == {"no half before 3.0"}
    assert outcome.why == "no half before 3.0"


def test_a_case_that_is_not_named_fails_and_is_what_is_told(run: Run) -> None:
    text = f'[expected_failures]\n"{STORES}[kind=mha,dtype=float16*]" = "no half before 3.0"\n'
    outcome = run("WrongInHalf", STORES, text)
    assert outcome.status == "failed"
    waived = [one for one in outcome.failing if one["waived"]]
    left = [one for one in outcome.failing if not one["waived"]]
    assert waived
    assert left
    assert (outcome.case, outcome.what) == (left[0]["case"], left[0]["what"])
    assert all("kind=mha" not in one["id"] for one in left)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("glob", "of_another"),
    [
        ("memory.*", "passed"),
        ("memory.store_*[*float16*]", "passed"),
        ("*[*dtype=float16*]", "unexpected_pass"),
    ],
)
def test_a_glob_over_checks_asks_it_of_each_that_fits(run: Run, glob: str, of_another: str) -> None:
    text = f'[expected_failures]\n"{glob}" = "no half before 3.0"\n'
    assert run("WrongInHalf", STORES, text).status == "expected_failure"
    assert run("Talks", DECODE, text).status == of_another


def test_an_expectation_of_which_nothing_fails_is_a_failure_that_says_what_to_remove(run: Run) -> None:
    name = f"{STORES}[*dtype=bfloat16*]"
    text = f'[expected_failures]\n"{name}" = "old"\n"{STORES}[*dtype=float16*]" = "new"\n'
    for location in ("WrongInHalf", "Talks"):
        outcome = run(location, STORES, text)
        assert outcome.status == "unexpected_pass"
        assert name in (outcome.fix or "")
        assert "old" in (outcome.what or "")


def test_of_cases_that_were_not_run_nothing_is_said(run: Run) -> None:
    text = f'[expected_failures]\n"{STORES}[*dtype=float16*]" = "known"\n'
    outcome = run("Talks", f"{STORES}[*dtype=bfloat16*]", text)
    assert outcome.status == "passed"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("when", "applies"),
    [
        (f"torch=={TORCH}", True),
        ("torch>=1", True),
        ("torch<1", False),
        ("no-such-distribution", False),
        ("torch>=1; python_version >= '3.0'", True),
        ("torch>=1; sys_platform == 'win32'", False),
    ],
)
def test_an_expectation_holds_under_its_conditions_alone(run: Run, when: str, applies: bool) -> None:
    text = f'[expected_failures]\n"{STORES}" = {{ reason = "known", when = "{when}" }}\n'
    assert run("WrongInHalf", STORES, text).status == ("expected_failure" if applies else "failed")


def test_all_of_several_conditions_must_hold(run: Run) -> None:
    text = f'[expected_failures]\n"{STORES}" = {{ reason = "known", when = ["torch>=1", "torch<1"] }}\n'
    assert run("WrongInHalf", STORES, text).status == "failed"
    assert run("Talks", STORES, text).status == "passed"  # where it does not hold it asks for nothing


_WIDER = """[[tolerances]]
checks = "{checks}"
dtype = "{dtype}"
factor = {factor}
reason = "sums are kept in bfloat16"
"""


@pytest.mark.long
def test_a_tolerance_widens_the_bound_of_its_type_alone_and_is_told(run: Run) -> None:
    assert run("RoughInBfloat16", DECODE).status == "failed"
    outcome = run(
        "RoughInBfloat16", DECODE, _WIDER.format(checks="kernels.*_attention", dtype="bfloat16", factor=8)
    )
    assert outcome.status == "passed", outcome.what
    (told,) = outcome.widened
    assert (told["dtype"], told["factor"], told["reason"]) == ("bfloat16", 8.0, "sums are kept in bfloat16")
    assert 1 < told["needed"] <= 8
    other = run(
        "RoughInBfloat16", DECODE, _WIDER.format(checks="kernels.*_attention", dtype="float16", factor=8)
    )
    assert other.status == "failed"
    narrow = run("RoughInBfloat16", DECODE, _WIDER.format(checks=DECODE, dtype="bfloat16", factor=1.001))
    assert narrow.status == "failed"


def test_a_tolerance_that_is_not_needed_is_a_failure(run: Run) -> None:
    outcome = run("Talks", DECODE, _WIDER.format(checks=DECODE, dtype="bfloat16", factor=2))
    assert outcome.status == "unexpected_pass"
    assert "[[tolerances]]" in (outcome.fix or "")
    assert (
        run("Talks", DECODE, _WIDER.format(checks="kernels.*", dtype="bfloat16", factor=2)).status == "passed"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_WIDER.format(checks=DECODE, dtype="bfloat16", factor=1), "factor above 1"),
        (_WIDER.format(checks=DECODE, dtype="bfloat16", factor=100), "up to 16"),
        (_WIDER.format(checks="", dtype="bfloat16", factor=2), "names its checks"),
        (_WIDER.format(checks=DECODE, dtype="bfloat16", factor=2).replace("reason", "because"), "'because'"),
        (_WIDER.format(checks="kernel.*", dtype="bfloat16", factor=2), "no check fits 'kernel.*'"),
        (f'[expected_failures]\n"{STORES}[*]" = {{ when = "torch<9" }}\n', "no reason"),
        (f'[expected_failures]\n"{STORES}" = {{ reason = "x", wen = "torch<9" }}\n', "did you mean 'when'"),
        (f'[expected_failures]\n"{STORES}" = {{ reason = "x", when = "torch <> 9" }}\n', "no condition"),
        (f'[expected_failures]\n"{STORES}" = {{ reason = "x", tier = "slow" }}\n', "default or thorough"),
        (
            '[expected_failures]\n"memory.store_reads_bak[*]" = "x"\n',
            "did you mean 'memory.store_reads_back'",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _file(tmp_path, text)
    assert said in str(refused.value)
