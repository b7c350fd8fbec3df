"""The table kernel x target, as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sglang_platform.conformance.kernels.compile.farm import CompiledKernel

__all__ = ["page"]

_HEAD = """# Kernels

What the compiler makes of each kernel on each target, as its launch wrapper launches it there. Generated with
Triton {triton} by `python -m sglang_platform.conformance.kernels --platform cuda,rocm --skip interpret
--table docs/kernels.md`; no figure here was measured on a device.

Registers are per thread (AMD: accumulation registers included), shared memory and spills in bytes, matrix is the
instruction that multiplies and how many of it the code holds, wide is the number of 16-byte loads per lane.
"""

_DECODE = """
## Predicted share of the copy bandwidth

Of paged decode, batch 64 with 8192 tokens each: worked out from the code and measured nowhere. [The decode kernels in
machine code](decode_code.md) says how, and why some are under 0.90.
"""


def page(
    rows: Iterable[CompiledKernel], triton: str, targets: Sequence[str], shares: Sequence[str] = ()
) -> str:
    """Markdown: one table per declaration, one row per launch, function and target; then the exclusions.

    shares: the lines of the table of predicted shares, where there is one.
    """
    by_name: dict[str, list[CompiledKernel]] = {}
    for row in rows:
        by_name.setdefault(row.declaration, []).append(row)
    parts = [_HEAD.format(triton=triton)]
    if shares:
        parts += [_DECODE, *shares]
    for name in sorted(by_name):
        parts.append(f"\n## {name}\n")
        parts.append(
            "| launch | function | target | warps | stages | registers | shared | spills | matrix | wide |"
        )
        parts.append("|---|---|---|---|---|---|---|---|---|---|")
        compiled = [row for row in by_name[name] if not row.excluded]
        parts += sorted((_line(row) for row in compiled), key=lambda line: _place(line, targets))
        excluded = sorted({(row.target, row.launch, row.excluded) for row in by_name[name] if row.excluded})
        parts += [f"\n{target}, {launch}: not compiled: {reason}." for target, launch, reason in excluded]
    return "\n".join(parts) + "\n"


def _line(row: CompiledKernel) -> str:
    code = row.code
    matrix = f"{code['matrix']} x {code['matrix_count']}" if code.get("matrix") else ""
    cells = (
        row.launch,
        f"`{row.kernel}`",
        row.target,
        row.warps,
        row.stages,
        code.get("registers", ""),
        code.get("shared", ""),
        code.get("spills", ""),
        matrix,
        code.get("wide_loads", ""),
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _place(line: str, targets: Sequence[str]) -> tuple[str, str, int, str]:
    _, launch, function, target, *_ = (cell.strip() for cell in line.split("|"))
    return launch, function, targets.index(target) if target in targets else len(targets), line
