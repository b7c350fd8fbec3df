"""What several releases of Triton make of the kernels, side by side.

`python -m sglang_platform.conformance.kernels.versions REPORT... --table docs/triton_versions.md`, with the reports
that `nox -s triton_versions` writes, named by their release.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["page"]

_HEAD = """# Kernels by release of Triton

Every kernel of the CUDA and ROCm packages, compiled for every target by each release. Made by
`python -m sglang_platform.conformance.kernels.versions reports/triton/*.json --table docs/triton_versions.md` from the
reports of `nox -s triton_versions`; no figure here was measured on a device.

| kernels | Triton | compiled | over their limits | most registers | most bytes spilled |
|---|---|---|---|---|---|
"""

_DECODE = """
## The loop of decode

Instructions of a warp in one turn, and how many turns' rows are on their way meanwhile.

"""


def page(reports: dict[str, dict[str, Any]]) -> str:
    """Markdown. reports: by release."""
    lines = [_HEAD.rstrip("\n")]
    names = sorted({row["declaration"] for report in reports.values() for row in report["rows"]})
    for name in names:
        for release, report in reports.items():
            rows = [row for row in report["rows"] if row["declaration"] == name and not row["excluded"]]
            cells = (
                name,
                release,
                len(rows),
                sum(1 for row in rows if row["faults"]),
                max((row["code"].get("registers", 0) for row in rows), default=""),
                max((row["code"].get("spills", 0) for row in rows), default=""),
            )
            lines.append(_line(*cells))
    lines += ["", "## Over their limits", "", *(_faults(reports) or ["None."])]
    lines += [_DECODE.rstrip("\n"), "", _line("case", "target", *reports), "|---" * (2 + len(reports)) + "|"]
    loops = {
        release: {(row["case"], row["target"]): row["loop"] for row in report["decode"]}
        for release, report in reports.items()
    }
    for place in next(iter(loops.values()), {}):
        found = [loops[release].get(place) for release in reports]
        lines.append(_line(*place, *(_loop(one) if one else "" for one in found)))
    return "\n".join(lines) + "\n"


def _faults(reports: dict[str, dict[str, Any]]) -> list[str]:
    return [
        f"- Triton {release}, {row['target']}, {row['declaration']}, {row['launch']}, `{row['kernel']}`: "
        + "; ".join(fault.strip().splitlines()[-1] for fault in row["faults"])
        for release, report in reports.items()
        for row in sorted(report["rows"], key=lambda row: (row["declaration"], row["target"], row["launch"]))
        if row["faults"]
    ]


def _loop(loop: dict[str, int]) -> str:
    return f"{loop['instructions']}, {loop['ahead']} ahead"


def _line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def main(arguments: list[str] | None = None) -> int:
    """Writes the page, or prints it."""
    parser = argparse.ArgumentParser(prog="python -m sglang_platform.conformance.kernels.versions")
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--table", type=Path, help="write the page there")
    options = parser.parse_args(arguments)
    text = page({path.stem: json.loads(path.read_text()) for path in sorted(options.reports)})
    if options.table is None:
        print(text)
    else:
        options.table.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
