"""Write the page: `python -m tools.whose_parts --output docs/parts.md`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.whose_parts.page import page


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.whose_parts", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the file to write, as Markdown")
    options = parser.parse_args(arguments)
    options.output.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
