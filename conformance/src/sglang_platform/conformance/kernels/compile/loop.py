"""The loop over the cache in the machine code of an attention kernel: what a turn costs, and what is under way then.

NVIDIA: copies and waits stand in the PTX; instructions are those of the assembled code, by the disassembler that Triton
brings. Where whole pages are copied (TMA), the loop that does it is read, not the one over the tokens behind them; what
is ahead of it are the copies asked for before the loop, less those of the turn itself where the loop asks for the next
ones only behind its products. AMD: all of it stands in the assembly text.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LoopCode", "loop_lengths", "read_loop"]

_NVIDIA = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)")
_AMD = re.compile(r"\bv_s?mfma_")
_JUMP_AMD = r"\bs_(?:cbranch\w*|branch)\s+(\.LBB\w+)"
_JUMP_NVIDIA = r"\bBRA\b[^`]*`\((\.L_x_\d+)\)"
_BULK = re.compile(r"\bcp\.async\.bulk\.tensor|\bUTMALDG\b")


@dataclass(frozen=True)
class LoopCode:
    """instructions: of one warp in one turn. matrix: matrix instructions among them. ahead: turns whose rows are on
    their way while one is computed. conversions: from one number format to another. byte_loads: of single bytes, from
    shared memory or beyond."""

    instructions: int
    matrix: int
    ahead: int
    conversions: int
    byte_loads: int


def read_loop(kernel: Any, inner: bool = False) -> LoopCode:
    """Of the longest loop that multiplies matrices, or of the shortest where `inner`: a loop that stands in another.

    `kernel`: Triton's `CompiledKernel`. Raises ValueError where there is none."""
    if "amdgcn" in kernel.asm:
        code = _amd_code(_chosen(inner, kernel.asm["amdgcn"], r"^(\.LBB\w+):", _JUMP_AMD, _AMD))
        return LoopCode(
            instructions=len(code),
            matrix=_count(_AMD, code),
            ahead=_fetched_before_the_products(code),
            conversions=_count(re.compile(r"^v_cvt_"), code),
            byte_loads=_count(
                re.compile(r"^(?:ds_read|ds_load|buffer_load|global_load)_(?:u8|i8|ubyte|sbyte)"), code
            ),
        )
    text = kernel.asm["ptx"]
    ptx = _chosen(inner, text, r"^(\$L\w+):", r"\bbra(?:\.uni)?\s+(\$L\w+);", _NVIDIA)
    commits = _count(re.compile(r"cp\.async\.commit_group"), ptx)
    waits = [int(n) for line in ptx for n in re.findall(r"cp\.async\.wait_group\s+(\d+)", line)]
    ahead = min(waits, default=0) // max(1, commits)
    if _count(_BULK, ptx):
        ahead = _turns_copied_before(text.splitlines(), ptx)
    body = _chosen(inner, _disassembled(kernel), r"^(\.L_x_\d+):", _JUMP_NVIDIA, re.compile(r"\w*MMA\b"))
    code = _nvidia_code(body)
    return LoopCode(
        instructions=len(code),
        matrix=_count(re.compile(r"MMA\b"), code),
        ahead=ahead,
        conversions=_count(re.compile(r"^(?:F2F|I2F|F2I)"), code),
        byte_loads=_count(re.compile(r"^(?:LDS|LDG)\S*\.[US]8"), code),
    )


def loop_lengths(kernel: Any) -> list[int]:
    """The instructions of one warp in one turn of each loop that multiplies matrices, in the order of the code."""
    if "amdgcn" in kernel.asm:
        loops = _loops(kernel.asm["amdgcn"].splitlines(), r"^(\.LBB\w+):", _JUMP_AMD)
        return [len(_amd_code(body)) for body in loops if _count(_AMD, body)]
    loops = _loops(_disassembled(kernel).splitlines(), r"^(\.L_x_\d+):", _JUMP_NVIDIA)
    return [len(_nvidia_code(body)) for body in loops if _count(re.compile(r"\w*MMA\b"), body)]


def _amd_code(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if re.match(r"\s+[a-z]\w+", line)]


def _nvidia_code(lines: list[str]) -> list[str]:
    return [text.group(1) for line in lines if (text := re.search(r"\*/\s+(?:@!?\w+\s+)?([A-Z]\S+)", line))]


def _count(pattern: re.Pattern[str], lines: list[str]) -> int:
    return sum(1 for line in lines if pattern.search(line))


def _chosen(inner: bool, text: str, label: str, jump: str, product: re.Pattern[str]) -> list[str]:
    """The lines of the longest loop, or of the shortest: from a label to a jump back to it, with products between. Of
    loops that copy in bulk the shortest: waits stand behind the code that they belong to, and jump back into it."""
    loops = [body for body in _loops(text.splitlines(), label, jump) if _count(product, body)]
    if not loops:
        raise ValueError("no loop of this code multiplies matrices")
    bulk = [body for body in loops if _count(_BULK, body)]
    if bulk:
        return min(bulk, key=len)
    return min(loops, key=len) if inner else max(loops, key=len)


def _loops(lines: list[str], label: str, jump: str) -> Iterator[list[str]]:
    places = {found.group(1): at for at, line in enumerate(lines) if (found := re.match(label, line))}
    for at, line in enumerate(lines):
        found = re.search(jump, line)
        if found and places.get(found.group(1), at) < at:
            yield lines[places[found.group(1)] : at + 1]


def _turns_copied_before(lines: list[str], loop: list[str]) -> int:
    """Turns whose rows are on their way while `loop`, a part of `lines`, computes one."""
    copies = [at for at, line in enumerate(loop) if _BULK.search(line)]
    products = [at for at, line in enumerate(loop) if _NVIDIA.search(line)]
    before = _count(_BULK, lines[: lines.index(loop[0])])
    return before // len(copies) - (copies[0] > products[0])


def _fetched_before_the_products(code: list[str]) -> int:
    """1 where rows are asked for, then most products are computed, and only then the rows are waited for."""
    code = code + code  # a turn's loads may be waited for in the next
    best = 0
    for at, line in enumerate(code[: len(code) // 2]):
        if re.match(r"(?:buffer|global)_load_(?:lds_)?dwordx[24]", line):
            wait = next((i for i in range(at, len(code)) if re.match(r"s_waitcnt.*vmcnt\(0\)", code[i])), at)
            best = max(best, _count(_AMD, code[at:wait]))
    return int(2 * best >= _count(_AMD, code) // 2 > 0)


def _disassembled(kernel: Any) -> str:
    # Here, since reading AMD's code needs no Triton.
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(kernel.asm["cubin"])
        command = [knobs.nvidia.nvdisasm.path, "-c", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
