"""Runs the unseen platforms.

`python run.py [--log FILE] [--every] [--missing] [--check GLOB] [DIMENSION|NAME ...]`

Each is asked the checks of its dimension's levels in order, until one fails; `--every` asks all. A broken platform on
which none fails has survived; a healthy one on which one fails is a false alarm. With a log, each outcome is a line of
JSON there, and what the log holds already is not run again. `--missing` runs those alone that `outcomes.jsonl` does not
name. `--check` asks some of those checks only, which is quicker for a platform that one of them is meant for.

`python run.py --write PAGE outcomes.jsonl LOG ...` writes the page of what became of them: the last line of a platform
counts. `outcomes.jsonl` is what became of each at its last run; append a log to it that is to stay.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import page
import warm
from broken import HERE, Broken, load

from sglang_platform.conformance.case_ids import matches
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.runner import Runner, Selection

_BY_PACKAGE = ("contract.overrides_are_called",)
"""It looks for the class by other means than the suite's other checks, and finds none that is made on demand."""


def run(one: Broken, *, every: bool = False, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Which checks failed on it, and what they said."""
    started, failed, asked = time.monotonic(), [], 0
    if one.write is None and warm.LEVELS.issuperset(one.levels):
        failed, asked = warm.failures(one, every=every or one.healthy, only=only)
        return _found(one, failed, asked, started)
    with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
        installed = one.write(Path(folder)) if one.write else None
        path = [folder, str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "OMP_NUM_THREADS": "1"}
        selection = Selection(
            installed.name if installed else f"unseen=broken:{one.table}__{one.name}",
            levels=tuple(map(Level.parse, one.levels)),
            patience=3.0,
            environment={**environment, **(installed.environment if installed else {})},
        )
        runner = Runner(selection)
        try:
            for check in selection.chosen():
                if check.id in _BY_PACKAGE and one.write is None:
                    continue
                if only and not any(matches(glob, check.id) for glob in only):
                    continue
                outcome = runner.run_one(check)
                asked += outcome.status not in ("not_run", "not_applicable")
                if outcome.is_bad:
                    about = {
                        "check": outcome.id,
                        "status": outcome.status,
                        "what": outcome.what or outcome.why,
                    }
                    failed.append({**about, "failure": outcome.failure, "case": outcome.case})
                    if not (every or one.healthy):
                        break
        finally:
            runner.close()
    return _found(one, failed, asked, started)


def _found(one: Broken, failed: list[dict[str, Any]], asked: int, started: float) -> dict[str, Any]:
    seconds = round(time.monotonic() - started, 1)
    return {"name": one.name, "dimension": one.dimension, "healthy": one.healthy, "failed": failed,
            "asked": asked, "seconds": seconds}  # fmt: skip


def verdict(one: Broken, found: dict[str, Any]) -> str:
    """One line: caught and by what, survived, a false alarm, or quiet."""
    if not found["failed"]:
        return "quiet" if one.healthy else f"SURVIVED {found['asked']} checks: {one.defect}"
    first = found["failed"][0]
    what = str(first["what"]).strip().splitlines()[0][:200]
    return f"{'FALSE ALARM' if one.healthy else 'caught'} by {first['check']} ({first['failure']}): {what}"


def _named(logs: list[Path]) -> set[str]:
    return {json.loads(line)["name"] for log in logs for line in log.read_text().splitlines()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--check", action="append", default=[])
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if given.write:
        given.write.write_text(page.of([Path(name) for name in given.names]))
        return 0
    logs = [HERE / "outcomes.jsonl"] if given.missing else []
    done = _named(logs + ([given.log] if given.log and given.log.exists() else []))
    wrong = 0
    for one in load().values():
        if one.name in done or (given.names and not {one.name, one.dimension} & set(given.names)):
            continue
        one.texts()
        found = run(one, every=given.every, only=tuple(given.check))
        wrong += bool(found["failed"]) == one.healthy
        print(f"{one.dimension} {one.name} {found['seconds']} s {verdict(one, found)}", flush=True)
        if given.log:
            with given.log.open("a") as log:
                log.write(json.dumps(found) + "\n")
    print(f"{wrong} survivors and false alarms")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
