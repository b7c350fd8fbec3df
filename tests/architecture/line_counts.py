"""Print how many lines each room has: `python tests/architecture/line_counts.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from import_graph import DISTRIBUTIONS, ROOT, modules_below

__all__ = ["lines_by_room", "page"]

DISTRIBUTION = "all"


def lines_by_room(root: Path = ROOT) -> dict[str, dict[str, tuple[int, int]]]:
    """(lines, files) of each room of each distribution; `all` is the whole of it."""
    counted = {}
    for name, folder in DISTRIBUTIONS.items():
        lines: Counter[str] = Counter()
        files: Counter[str] = Counter()
        for module, path in modules_below(root / folder / "src").items():
            room = (module.split(".")[2:] or ["(public names)"])[0]
            for key in (DISTRIBUTION, room):
                lines[key] += len(path.read_text(encoding="utf-8").splitlines())
                files[key] += 1
        counted[name] = {room: (lines[room], files[room]) for room in lines}
    return counted


def page(counted: Mapping[str, Mapping[str, tuple[int, int]]]) -> str:
    """The table as text, the largest room of each distribution first."""
    rows = [f"{'room':<36}{'lines':>8}{'files':>8}"]
    for name, rooms in counted.items():
        for room, (lines, files) in sorted(rooms.items(), key=lambda item: (-item[1][0], item[0])):
            shown = name if room == DISTRIBUTION else f"  {name}/{room}"
            rows.append(f"{shown:<36}{lines:>8,}{files:>8}")
    return "\n".join(rows)


if __name__ == "__main__":
    print(page(lines_by_room()))
