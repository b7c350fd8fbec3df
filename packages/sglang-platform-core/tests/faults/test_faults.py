"""Every fault of the table ends as the table says, in what happens and in what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_definition import Fault
from fault_runs import run_on_core
from fault_table import FAULTS


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_ends_as_the_table_says(fault: Fault, tmp_path: Path, libraries: Path) -> None:
    run = run_on_core(fault, tmp_path / "site", libraries)
    error = run.outcome["error"]
    fails = fault.is_error or fault.ends == "doctor"
    assert run.status == (1 if fails else 0), run.outcome
    if fault.is_error:
        assert error is not None, run.outcome
        assert (error["type"], error["plugin"]) == (fault.ends, fault.plugin), error["text"]
        assert error["fix"], error["text"]
        assert f"{fault.ends}: {error['text']}" in run.errors
    else:
        assert error is None or error["type"] == "SystemExit", error
        assert run.outcome["seen"] == (fault.seen or "")
    message = run.source(fault.ends)
    assert [words for words in fault.says if words not in message] == [], message
    if fault.ends == "right":
        assert run.outcome["warnings"] == []


def test_the_names_of_the_faults_are_distinct() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
