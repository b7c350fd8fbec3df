"""Runs the fault table on the installed SGLang and writes the comparison, `docs/faults.md`.

    python packages/sglang-platform-core/tests/faults/compare_with_host.py

The outcomes on SGLang are kept in `faults_on_sglang.json`; `--page` writes the page from them without running SGLang.
What the page says of sglang-platform is the table itself, which `test_faults.py` holds it to.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fault_definition import ENDS, Fault
from fault_runs import run_on_host
from fault_table import AREAS, FAULTS

__all__ = ["PAGE", "RECORD", "measure", "page", "verdict"]

RECORD = Path(__file__).with_name("faults_on_sglang.json")
PAGE = Path(__file__).parents[4] / "docs" / "faults.md"

_LONGEST = 110


class Verdict(NamedTuple):
    """How a fault ended on SGLang: one of `_VERDICTS`, and what was seen or said."""

    word: str
    detail: str


_VERDICTS = {
    "silent": "silent",
    "logged only": "logged only",
    "breaks": "breaks where it should work",
    "bare error": "an error, though not the framework's own",
    "clear error": "a clear error",
    "without a word": "right, without the warning that is due",
    "right": "right",
    "no such feature": "no such feature",
}


def verdict(fault: Fault, outcome: Mapping[str, Any] | None) -> Verdict:
    """Read an outcome on SGLang. One that only we report counts as right there if SGLang says something too."""
    if fault.not_in_host is not None or outcome is None:
        return Verdict("no such feature", fault.not_in_host or "")
    error, seen, logged = outcome["error"], outcome["seen"], outcome["warnings"]
    if error is not None:
        said = f"`{error['type']}`: {_short(error['text'])}"
        if fault.seen is not None:
            return Verdict("breaks", said)
        if logged:
            said += f" (logged: {_short(logged[0])})"
        return Verdict("clear error" if error["on_purpose"] else "bare error", said)
    if seen == fault.seen and (fault.ends == "right" or logged):
        return Verdict("right", f"{seen}, with a warning" if logged else seen)
    if seen == fault.seen and fault.ends in ("warning", "trace"):
        return Verdict("without a word", seen)
    if logged:
        return Verdict("logged only", f"{_short(logged[0])}; then: {seen}")
    return Verdict("silent", seen)


def measure() -> dict[str, Any]:
    """Run every fault that SGLang has the feature for."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_on_host([fault for fault in FAULTS if fault.not_in_host is None], Path(folder))
    version = outcomes.pop("")
    text = json.dumps(outcomes)
    for place in (folder, *(str(Path(entry).parent) for entry in _sglang_folders())):
        text = text.replace(place, "...")
    return {"sglang": version, "outcomes": json.loads(text)}


def _sglang_folders() -> list[str]:
    spec = importlib.util.find_spec("sglang")
    return list(spec.submodule_search_locations or ()) if spec is not None else []


def page(record: Mapping[str, Any]) -> str:
    """The comparison as Markdown."""
    verdicts = {fault.name: verdict(fault, record["outcomes"].get(fault.name)) for fault in FAULTS}
    counts = Counter(one.word for one in verdicts.values())
    version = record["sglang"]
    lines = [_HEAD.format(count=len(FAULTS), version=version)]
    lines += [f"| {_VERDICTS[word]} | {counts[word]} |" for word in _VERDICTS]
    lines += ["", _READING.format(version=version)]
    for area, faults in AREAS.items():
        lines += ["", f"## {area}", "", f"| fault | SGLang {version} | sglang-platform | message |"]
        lines.append("|---|---|---|---|")
        lines += [_row(fault, verdicts[fault.name]) for fault in faults]
    return "\n".join(lines) + "\n"


_HEAD = """# Faults

{count} faults, each a small real set-up (throw-away distributions, modules, environment variables) run in a process
of its own, on sglang-platform and, where it has the feature, on the plugin framework of SGLang {version}. The page is
generated:

```
python packages/sglang-platform-core/tests/faults/compare_with_host.py
```

It imports SGLang once and runs each fault in a fork of that process. The set-ups are the files `faults_of_*.py` beside
the command; `test_faults.py` holds sglang-platform to what stands here, outcome and message.

| on SGLang {version} | faults |
|---|---|"""

_READING = """How to read SGLang's column: *silent*: nothing is raised and nothing is logged at level WARNING or above;
what follows is the state in which the process goes on. *Logged only*: the same, with a line in the log. *Breaks*: an
exception, where it should work. *Clear error*: one that the framework raises on purpose; *bare error*: whatever Python
or the plugin raised, often at the first use. *Without a word*: the right state, without the warning that is due. In
the column of sglang-platform a class name is the exception, which ends the process with status 1 unless caught."""


def _row(fault: Fault, on_host: Verdict) -> str:
    word = f"**{on_host.word}**" if on_host.word in ("silent", "logged only", "breaks") else on_host.word
    host = f"{word}: {on_host.detail}" if on_host.detail else word
    ours = f"`{fault.ends}`" if fault.is_error else ENDS[fault.ends]
    message = f"`{fault.says[0]}`" if fault.says else fault.seen or ""
    return "| " + " | ".join(_cell(one) for one in (fault.title, host, ours, message)) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _short(text: str) -> str:
    first = " ".join(text.split()) or "(no message)"
    first = first.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
    return first if len(first) <= _LONGEST else first[: _LONGEST - 3] + "..."


def main(arguments: list[str]) -> None:
    """Measure, unless only the page is wanted, and write."""
    if arguments not in ([], ["--page"]):
        raise SystemExit(__doc__)
    if not arguments:
        RECORD.write_text(json.dumps(measure(), indent=1, sort_keys=True) + "\n")
    record = json.loads(RECORD.read_text())
    PAGE.write_text(page(record))
    counts = Counter(verdict(fault, record["outcomes"].get(fault.name)).word for fault in FAULTS)
    print(f"{PAGE}: {len(FAULTS)} faults; SGLang {record['sglang']}: {dict(counts)}")


if __name__ == "__main__":
    main(sys.argv[1:])
