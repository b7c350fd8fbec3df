"""The same outcomes as a JUnit file, which continuous integration shows: a suite per level, a test case per check."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

from sglang_platform.conformance.outcome import case_text

__all__ = ["junit"]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(document: Mapping[str, Any]) -> str:
    """The file's text. Failed and unexpectedly passed checks are failures; crashes, time limits and blocked checks are
    errors; the rest that did not pass is skipped, with its reason."""
    platform = document["platform"]["name"]
    root = ElementTree.Element("testsuites", name=f"sglang-platform conformance {platform}")
    for level, counts in document["levels"].items():
        mine = [one for one in document["outcomes"] if one["level"] == level]
        kinds = [_kind(one) for one in mine]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=level,
            tests=str(len(mine)),
            failures=str(kinds.count("failure")),
            errors=str(kinds.count("error")),
            skipped=str(kinds.count("skipped")),
            time=f"{counts['seconds']:.3f}",
            timestamp=document["run"]["started"],
        )
        _properties(suite, document)
        for one, kind in zip(mine, kinds, strict=True):
            _case(suite, platform, one, kind)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _properties(suite: ElementTree.Element, document: Mapping[str, Any]) -> None:
    told = {
        "verdict": document["verdict"]["headline"],
        "seed": document["run"]["seed"],
        "tier": "thorough" if document["run"]["thorough"] else "default",
        **{name: version for name, version in document["environment"]["packages"].items() if version},
    }
    inside = ElementTree.SubElement(suite, "properties")
    for name, value in told.items():
        ElementTree.SubElement(inside, "property", name=name, value=_clean(str(value)))


def _case(suite: ElementTree.Element, platform: str, one: Mapping[str, Any], kind: str | None) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"{platform}.{one['level']}",
        name=one["id"],
        time=f"{one['seconds']:.3f}",
    )
    if kind is None:
        return
    said = one["what"] or one["why"] or one["status"]
    if one["status"] == "expected_failure":
        said = f"expected failure: {one['why']}"
    what = ElementTree.SubElement(case, kind, message=_clean(said.splitlines()[0]))
    if kind == "skipped":
        return
    what.set("type", one["failure"] or one["status"])
    lines = [
        ("proves", one["proves"]),
        ("what", said),
        ("case", case_text(one["case"])),
        ("at", one["place"]),
        ("where", one["trace"]),
    ]
    lines += [("fails", each["id"]) for each in one["failing"] if each["waived"] is None]
    lines += [("fix", one["fix"]), ("again", one["rerun"]), ("check", one["source"])]
    what.text = _clean("\n".join(f"{label}: {text}" for label, text in lines if text))


def _kind(one: Mapping[str, Any]) -> str | None:
    if one["status"] == "passed":
        return None
    if one["status"] in ("blocked", "suite_failed") or (
        one["status"] == "failed" and one["failure"] in ("crash", "timeout")
    ):
        return "error"
    return "failure" if one["status"] in ("failed", "unexpected_pass") else "skipped"


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold, which a process that dies may print."""
    return _NO_XML.sub("?", text)
