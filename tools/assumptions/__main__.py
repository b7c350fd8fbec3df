"""Write the page: `python -m tools.assumptions --output docs/assumptions.md 0.5.22 installed`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sglang_platform.devtools.assumptions.survey import survey_of
from sglang_platform.devtools.upgrade.wheels import open_release
from tools.assumptions.page import assumptions_page


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.assumptions", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the file to write, as Markdown")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels, searched before one is downloaded")
    parser.add_argument("releases", nargs="+", help="a version, a wheel, a folder or 'installed'")
    options = parser.parse_args(arguments)
    surveys = [survey_of(open_release(where, options.wheels).tree) for where in options.releases]
    options.output.write_text(assumptions_page(surveys), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
