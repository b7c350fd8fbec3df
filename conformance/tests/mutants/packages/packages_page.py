"""The section of `docs/mutants_generated.md` about the packages; `run_generated.py` writes what stands above it."""

from __future__ import annotations

from collections.abc import Sequence

from areas import AREAS
from judged import Judged
from run_generated import PACKAGES as MARK
from survivors import explanation

__all__ = ["with_section"]


def with_section(text: str, results: Sequence[Judged], seed: int) -> str:
    """The page with this section anew, at its end."""
    return f"{text.partition(MARK)[0].rstrip()}\n\n{MARK}\n{_section(results, seed)}"


def _section(results: Sequence[Judged], seed: int) -> str:
    reached = [one for one in results if one.asked or one.killer]
    killed = sum(one.killer is not None for one in results)
    lines = [
        f"A seeded sample of {len(results)} changes to {_parts(results)}. Each was asked about by the checks that run "
        "its line or, where that is not recorded, its file; what only an engine calls, by the package's own tests. "
        f"{killed} of {len(reached)} that anything runs without an engine were killed "
        f"({100 * killed / max(1, len(reached)):.0f} %). Seed {seed}; `nox -s mutants_generated -- packages`.",
        "",
        "| part | changes | killed by a check | by the package's tests | alive | run by nothing here |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for area in AREAS:
        own = [one for one in results if one.area == area.name]
        if not own:
            continue
        by_tests = sum((one.killer or "").startswith("test:") for one in own)
        dead = sum(one.killer is not None for one in own)
        idle = sum(one.killer is None and not one.asked for one in own)
        cells = (area.name, len(own), dead - by_tests, by_tests, len(own) - dead - idle, idle)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "What survives, and what nothing runs:", "", "| place | was | becomes | why |"]
    lines.append("| --- | --- | --- | --- |")
    for one in sorted(results, key=lambda one: (one.file, one.line)):
        if one.killer is None:
            why = explanation(one) or ("?" if one.asked else _IDLE)
            cells_of = (f"`{_short(one.file)}:{one.line}`", f"`{one.old}`", f"`{one.new}`", why)
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells_of)} |")
    return "\n".join(lines) + "\n"


def _parts(results: Sequence[Judged]) -> str:
    names = [area.name for area in AREAS if any(one.area == area.name for one in results)]
    return f"{len(names)} of {len(AREAS)} parts of the packages"


_IDLE = "only an engine of SGLang, or a GPU, runs this line"


def _short(file: str) -> str:
    return file.partition("/src/sglang_platform/")[2] or file
