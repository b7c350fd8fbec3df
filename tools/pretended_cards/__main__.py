"""Write the page: `python -m tools.pretended_cards --output docs/pretended_cards.md`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.pretended_cards.page import SETUPS, page, surveyed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.pretended_cards", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the file to write, as Markdown")
    options = parser.parse_args(arguments)
    options.output.write_text(page({setup: surveyed(setup) for setup in SETUPS}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
