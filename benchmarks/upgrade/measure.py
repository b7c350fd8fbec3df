"""Recall and false reports of `sglang-platform upgrade` over every step of SGLang's releases, against `truth.csv`.

The truth is made by `make_truth.py`, which shares no code with the command. A row of the truth is found if the report
has a row of its kind at its line that says the same: gone (or moved), or changed. A row of the report is false if the
truth has no change of that kind at that line in that step.

    python benchmarks/upgrade/measure.py --wheels FOLDER [--step 0.5.13] [--json FILE]
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.report import upgrade_of
from sglang_platform.devtools.upgrade.rows import CouplingChange
from sglang_platform.devtools.upgrade.wheels import open_release

HERE = Path(__file__).parent
RELEASES = [f"0.5.{number}" for number in range(11, 24)]
GONE = {"gone", "moved"}


def truth() -> list[dict[str, str]]:
    with (HERE / "truth.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


Key = tuple[str, int, str, str]
"""File, line, kind, and for an import its name: a line may import several."""


def _key(file: str, line: int, kind: str, name: str) -> Key:
    return file, line, kind, name if kind == "import" else ""


@functools.lru_cache(maxsize=2)
def _release(version: str, wheels: Path) -> Release:
    """Read once for the step before and the step after it."""
    return open_release(version, wheels)


def of_step(old: str, new: str, wheels: Path, table: list[dict[str, str]]) -> dict[str, Any]:
    """Found, missed and false rows of one step."""
    began = time.perf_counter(), time.process_time()
    upgrade = upgrade_of(open_source(str(HERE / "plugin")), _release(old, wheels), _release(new, wheels))
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    wanted = {
        _key(row["file"], int(row["line"]), row["kind"], row["coupling"].rpartition(" ")[2]): row
        for row in table
        if row["step"] == new
    }
    reported: dict[Key, CouplingChange] = {}
    for change in upgrade.changes:
        for place in change.places:
            name = change.target.rpartition(".")[2]
            reported[_key(Path(place.file).name, place.line, change.kind, name)] = change
    missed = [row for key, row in wanted.items() if not _says(reported.get(key), row)]
    false = {key: change for key, change in reported.items() if key not in wanted}
    return {
        "step": new,
        "truth": dict(Counter(row["kind"] for row in wanted.values())),
        "missed": [_told(row) for row in missed],
        "missed_by_kind": dict(Counter(row["kind"] for row in missed)),
        "reported": len(reported),
        "false": [
            f"{one.kind} {one.target} ({key[0]}:{key[1]}): {one.how}: {one.what}"
            for key, one in false.items()
        ],
        "false_by_kind": dict(Counter(one.kind for one in false.values())),
        "seconds": round(seconds[0], 1),
        "cpu_seconds": round(seconds[1], 1),
    }


def _told(row: dict[str, str]) -> str:
    return f"{row['kind']} {row['coupling']} ({row['file']}:{row['line']}): {row['change']}"


def _says(change: CouplingChange | None, row: dict[str, str]) -> bool:
    return change is not None and ((change.how in GONE) == (row["change"] == "gone"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--step", help="the newer release of one step")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table, results = truth(), []
    for old, new in pairwise(RELEASES):
        if options.step in (None, new):
            result = of_step(old, new, options.wheels, table)
            results.append(result)
            count = sum(result["truth"].values())
            found, false = count - len(result["missed"]), len(result["false"])
            took = f"{result['seconds']} s ({result['cpu_seconds']} s of a processor)"
            print(
                f"{old} to {new}: {found} of {count} found, {false} of {result['reported']} false, {took}",
                flush=True,
            )
            for one in result["missed"]:
                print(f"  missed: {one}")
            for one in result["false"]:
                print(f"  false: {one[:200]}")
    _print_table(results, table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def _print_table(results: list[dict[str, Any]], table: list[dict[str, str]]) -> None:
    truths, missed = Counter[str](), Counter[str]()
    for result in results:
        truths.update(result["truth"])
        missed.update(result["missed_by_kind"])
    kinds = Counter(
        kind for kind, *_ in {(row["kind"], row["file"], row["line"], row["coupling"]) for row in table}
    )
    print(f"\n{'kind':<14}{'couplings':>10}{'changes':>9}{'found':>7}{'recall':>8}")
    for kind in sorted(kinds):
        found = truths[kind] - missed[kind]
        print(f"{kind:<14}{kinds[kind]:>10}{truths[kind]:>9}{found:>7}{_percent(found, truths[kind]):>8}")
    total, reported = truths.total(), sum(result["reported"] for result in results)
    false = sum(len(result["false"]) for result in results)
    print(
        f"{'all':<14}{kinds.total():>10}{total:>9}{total - missed.total():>7}"
        f"{_percent(total - missed.total(), total):>8}"
    )
    print(f"false: {false} of {reported} reported, {_percent(false, reported)}; "
          f"slowest step {max(one['cpu_seconds'] for one in results)} s of a processor")  # fmt: skip


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


if __name__ == "__main__":
    main()
