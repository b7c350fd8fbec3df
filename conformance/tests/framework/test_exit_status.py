"""Exit status: a selection that passes ends with 0; a gap that nobody asked for ends with 3."""

from __future__ import annotations

from typing import Any

import pytest

from sglang_platform.conformance.profiles import profile
from sglang_platform.conformance.report.selected import exit_status, passed_selection
from sglang_platform.conformance.verdict import judge

CORE = profile("core")
BROUGHT, NEEDED = CORE.if_brought[0], sorted(CORE.required)[0]
OF_NO_PROFILE = "features.lora_two_adapters"


def outcome(
    id: str = NEEDED, status: str = "passed", cause: str | None = None, **more: Any
) -> dict[str, Any]:
    return {"id": id, "status": status, "cause": cause, "why": "", "failing": [], "widened": [], **more}


PASSED, NO_DEVICE, NO_HOST = (
    outcome(),
    outcome(CORE.checks[1], "not_run", "device"),
    outcome(CORE.checks[2], "not_run", "host"),
)


def document(options: str, *outcomes: dict[str, Any], shards: tuple[str, ...] = ()) -> dict[str, Any]:
    command = f"sglang-platform conformance --platform odd {options}"
    parts = [{"command": f"{command} --shard {one}"} for one in shards] or None
    run = {"command": "sglang-platform conformance merge a b" if shards else command, "shards": parts}
    return {"run": run, "verdict": judge(outcomes, ["core"]).as_dict(), "outcomes": list(outcomes)}


@pytest.mark.parametrize(
    "options",
    [
        "--level packaging",
        "--level=packaging --level contract",
        "--check 'memory.*'",
        "-k 'attention and not fp8'",
        "-kattention",
        "--shard 1/3",
        "--last-failed report",
        "--host none",
        "--host=none --level memory",
        "--host sglang --level host",
    ],
)
def test_a_selection_that_passes_ends_with_0_and_says_what_was_selected(options: str) -> None:
    made = document(options, PASSED)
    assert exit_status(made) == 0
    assert made["verdict"]["word"] == "incomplete"
    said = passed_selection(made)
    assert "1 passed" in said
    assert options.split()[-1].strip("'") in said.replace("'", "") or options == "-kattention"


@pytest.mark.parametrize("options", ["", "--host sglang", "--profile core", "--seed 5 --thorough"])
def test_a_run_without_a_selection_that_lacks_checks_ends_with_3(options: str) -> None:
    assert exit_status(document(options, PASSED)) == 3


@pytest.mark.parametrize(
    "more",
    [
        NO_DEVICE,
        NO_HOST,
        outcome(OF_NO_PROFILE, "not_run", "device"),
        outcome(OF_NO_PROFILE, "not_run", "interrupted"),
        outcome(CORE.checks[1], "not_run", "extra"),
        outcome(CORE.checks[1], "expected_failure"),
        outcome(OF_NO_PROFILE, "expected_failure"),
        outcome(CORE.checks[1], "suite_failed"),
        outcome(CORE.checks[1], widened=[{}]),
    ],
)
def test_what_is_selected_and_not_looked_at_ends_with_3(more: dict[str, Any]) -> None:
    assert exit_status(document("--level memory", PASSED, more)) == 3


def test_sglang_is_left_out_by_host_none_and_by_nothing_else() -> None:
    assert exit_status(document("--host none", PASSED, NO_HOST)) == 0
    assert exit_status(document("--host none", PASSED, NO_DEVICE)) == 3
    assert exit_status(document("--host none --level host", NO_HOST)) == 3


def test_a_selection_in_which_nothing_could_be_judged_ends_with_3() -> None:
    nothing = outcome(BROUGHT, "not_applicable")
    assert exit_status(document("--level memory", nothing)) == 3
    assert exit_status(document("--level memory", nothing, PASSED)) == 0
    required = outcome(CORE.checks[1] if CORE.checks[1] in CORE.required else NEEDED, "not_applicable")
    assert exit_status(document("--level memory", required)) == 3


def test_a_failure_in_a_selection_ends_with_1() -> None:
    assert exit_status(document("--level memory", PASSED, outcome(OF_NO_PROFILE, "failed"))) == 1


def test_shards_together_select_nothing_unless_their_options_do() -> None:
    assert exit_status(document("", PASSED, shards=("1/2", "2/2"))) == 3
    made = document("-k norm", PASSED, shards=("1/2", "2/2"))
    assert exit_status(made) == 0
    assert passed_selection(made).startswith("selected by -k norm: 1 passed")
