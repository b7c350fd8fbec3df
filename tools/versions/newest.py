"""A new release of SGLang: what changed for our own packages since the newest one known, and the page of it all.

    python -m ...versions.newest ask-index
    python -m ...versions.newest report 0.5.24 --known 0.5.20 0.5.23 --out FOLDER --packages DIR...
    python -m ...versions.newest report CHECKOUT --known 0.5.20 0.5.23 --out FOLDER --packages DIR...
    python -m ...versions.newest ran FOLDER
    python -m ...versions.newest page 0.5.24 --out FOLDER --steps report matrix --failed

`nox -s newest` calls these in turn. The report needs SGLang's sources only; nothing of them is imported.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.cli.output_file import as_html
from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.report import print_upgrade, upgrade_of
from sglang_platform.devtools.upgrade.rows import describe
from sglang_platform.devtools.upgrade.wheels import open_release
from tools.versions.checkout import version_of

__all__ = ["before", "main", "newest_of", "require_run", "write_page", "write_reports"]

Row = dict[str, Any]


def newest_of(answer: str) -> str:
    """The release in what `pip index versions` prints. Raises ConfigurationError where it names none."""
    found = re.search(r"^sglang \(([^)]+)\)", answer, re.MULTILINE)
    if found is None:
        raise ConfigurationError(
            "the index names no release of SGLang",
            why=answer.strip()[:200] or None,
            fix="give the version: nox -s newest -- VERSION",
        )
    return found[1]


def before(version: str, known: Sequence[str]) -> str:
    """The newest known release before `version`. Raises ConfigurationError where there is none."""
    older = [one for one in known if Version(one) < Version(version)]
    if not older:
        raise ConfigurationError(
            f"no release before SGLang {version} is known", why=f"known: {', '.join(known)}"
        )
    return max(older, key=Version)


def write_reports(
    version: str, known: Sequence[str], packages: Sequence[str], out: Path, wheels: Path | None
) -> None:
    """One upgrade report per package, as JSON and HTML. `version` is a release, or the folder of a checkout."""
    checkout = Path(version)
    last = before(version_of(checkout) if checkout.is_dir() else version, known)
    old, new = open_release(last, wheels), open_release(version, wheels)
    for package in packages:
        upgrade = upgrade_of(open_source(package), old, new)
        name = Path(package).name
        (out / f"{name}.json").write_text(json.dumps(describe(upgrade), indent=1, default=str) + "\n")
        show = functools.partial(print_upgrade, upgrade=upgrade, everything=True)
        (out / f"{name}.html").write_text(as_html(show))
        print(f"{name}: {len(upgrade.changes)} changed, {upgrade.count('breaks')} break")


def require_run(folder: Path) -> None:
    """Raises ConfigurationError unless the suite's run, whose report is in the folder, went to its end and looked at
    something: its exit status is that of a part of the suite either way."""
    file = folder / "report.json"
    if not file.is_file():
        raise ConfigurationError(f"the run left no report in {folder}", fix="run the step again")
    outcomes: list[Row] = json.loads(file.read_text())["outcomes"]
    cut_off = [one["id"] for one in outcomes if one["cause"] == "interrupted"]
    if cut_off:
        raise ConfigurationError(
            f"the run was cut off before {len(cut_off)} of {len(outcomes)} checks: {', '.join(cut_off)}",
            fix="run the step again",
        )
    if all(one["status"] in ("not_run", "not_applicable") for one in outcomes):
        raise ConfigurationError(
            f"none of {len(outcomes)} checks ran", why=f"{file} says why", fix="run the step again"
        )


def write_page(version: str, out: Path, steps: Sequence[str], failed: Sequence[str]) -> str:
    """The page that a maintainer opens: what breaks, with the line and what to write, and how the steps ended."""
    parts = [f"# SGLang {version}\n"]
    if set(steps) - {"report"}:
        rows = [f"| {one} | {'failed' if one in failed else 'passed'} |" for one in steps if one != "report"]
        parts.append("| step | |\n|---|---|\n" + "\n".join(rows) + "\n")
    for path in sorted(out.glob("sglang-platform-*.json")):
        parts.append(_section(path.stem, json.loads(path.read_text())))
    text = "\n".join(parts)
    (out / "README.md").write_text(text)
    return text


def _section(name: str, report: Row) -> str:
    changes: list[Row] = report["changes"]
    looked = sum(report["looked_at"].values())
    lines = [
        f"## {name}: {report['from']} to {report['to']}\n",
        f"{looked} lines depend on SGLang; {len(changes)} of them changed; {len(report['not_looked_at'])} places could "
        f"not be read. All of it: [{name}.html]({name}.html).\n",
    ]
    shown = [one for one in changes if one["verdict"] != "fits"]
    if shown:
        lines += ["| | coupling | line | what changed | write |", "|---|---|---|---|---|"]
    for one in shown:
        place = one["places"][0]
        cells = (
            one["verdict"],
            f"`{one['target']}`",
            f"`{place['file']}:{place['line']}`",
            one["what"],
            one["fix"] or "",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("ask-index", "report", "ran", "page"))
    parser.add_argument("version", nargs="?")
    parser.add_argument("--known", nargs="*", default=[])
    parser.add_argument("--packages", nargs="*", default=[])
    parser.add_argument("--steps", nargs="*", default=[])
    parser.add_argument("--failed", nargs="*", default=[])
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.what == "ask-index":
        command = [sys.executable, "-m", "pip", "index", "versions", "sglang"]
        print(
            newest_of(
                subprocess.run(command, capture_output=True, text=True, check=False, timeout=300).stdout
            )
        )
    elif options.what == "ran" and options.version is not None:
        require_run(Path(options.version))
    elif options.version is None or options.out is None:
        parser.error("give a version and --out")
    elif options.what == "report":
        write_reports(options.version, options.known, options.packages, options.out, options.wheels)
    else:
        write_page(options.version, options.out, options.steps, options.failed)


if __name__ == "__main__":
    main()
