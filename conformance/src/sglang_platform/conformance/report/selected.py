"""Whether what a run selected passed. Its exit status is then 0, while the verdict on the platform stays incomplete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sglang_platform.conformance.report.runs import selecting
from sglang_platform.conformance.verdict import EXIT_STATUS, NOT_SELECTED

__all__ = ["exit_status", "passed_selection"]


def exit_status(document: Mapping[str, Any]) -> int:
    """The exit status of the command that made this report."""
    return 0 if passed_selection(document) else EXIT_STATUS[document["verdict"]["word"]]


def passed_selection(document: Mapping[str, Any]) -> str:
    """What was selected, and that it passed. Empty where the verdict answers for the run: it is not incomplete, nothing
    was selected, or of what was selected something was not looked at."""
    words, verdict = selecting(document["run"]), document["verdict"]
    if not words or verdict["word"] != "incomplete" or verdict["suite_failed"]:
        return ""
    selected = [one for one in document["outcomes"] if not _left_out_by_host(one, words)]
    # A declaration that a profile requires, a waiver and a wider tolerance stay gaps of a selection, too.
    gaps = {
        id
        for one in verdict["profiles"]
        for why, ids in one["missing"].items()
        for id in ids
        if why != NOT_SELECTED
    }
    counts = Counter(one["status"] for one in selected)
    if any(one["id"] in gaps for one in selected) or set(counts) > {"passed", "not_applicable"}:
        return ""
    if verdict["waived"] or verdict["widened"] or not counts["passed"] or counts["not_run"]:
        return ""
    nothing = f", {counts['not_applicable']} with nothing to judge" if counts["not_applicable"] else ""
    return f"selected by {' '.join(words)}: {counts['passed']} passed{nothing}; everything else was left out"


def _left_out_by_host(outcome: Mapping[str, Any], words: list[str]) -> bool:
    return outcome["cause"] == "host" and "--host none" in words
