"""The page that compares the fault table with SGLang is the one that the table and the record give."""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import version

import pytest
from compare_with_host import PAGE, RECORD, measure, page, verdict
from fault_table import FAULTS


@pytest.mark.skipif(not PAGE.parent.exists(), reason="the documentation is not part of this source tree")
def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(json.loads(RECORD.read_text())), "run compare_with_host.py --page"


def test_every_fault_has_an_outcome_on_the_host_or_a_reason_why_not() -> None:
    recorded = json.loads(RECORD.read_text())["outcomes"]
    assert set(recorded) == {fault.name for fault in FAULTS if fault.not_in_host is None}


@pytest.mark.host
@pytest.mark.engine
@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="SGLang is not installed")
def test_the_host_ends_as_recorded() -> None:
    record = json.loads(RECORD.read_text())
    if version("sglang") != record["sglang"]:
        pytest.skip(f"the record is of SGLang {record['sglang']}")
    outcomes = measure()["outcomes"]
    now = {fault.name: verdict(fault, outcomes.get(fault.name)).word for fault in FAULTS}
    then = {fault.name: verdict(fault, record["outcomes"].get(fault.name)).word for fault in FAULTS}
    assert now == then
