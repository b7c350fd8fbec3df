"""What the machine code of a compiled kernel shows: registers, spills, matrix instructions, wide loads.

NVIDIA: the PTX is assembled once more by the assembler that Triton brings, with `-v`, which prints registers and
spills; the instructions are read from the PTX. AMD: both stand in the assembly text.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["MachineCode", "read"]

# What multiplies matrices, by the start of the mnemonic, the newest first.
_MATRIX = {
    "tcgen05.mma": re.compile(r"\btcgen05\.mma"),
    "wgmma": re.compile(r"\bwgmma\.mma_async"),
    "mma.sync": re.compile(r"\bmma\.sync"),
    "mfma": re.compile(r"\bv_s?mfma_\w+"),
}
# 16 bytes per lane: vector loads, asynchronous copies to shared memory, bulk copies.
_WIDE_NVIDIA = re.compile(
    r"\bld\.global\S*\.v4\.b32|\bld\.global\S*\.v2\.b64|cp\.async\.cg\.shared|cp\.async\.bulk"
)
_WIDE_AMD = re.compile(r"\b(?:buffer|global|flat)_load_(?:lds_)?dwordx4")


@dataclass(frozen=True)
class MachineCode:
    """registers: per thread; accumulation registers of AMD are counted in. spills: bytes per thread. scratch: bytes of
    private memory per thread, spills included. shared: bytes per program. matrix: instruction and how many.
    wide_loads: how many."""

    registers: int
    spills: int
    scratch: int
    shared: int
    matrix: str
    matrix_count: int
    wide_loads: int


def read(kernel: Any) -> MachineCode:
    """`kernel`: Triton's `CompiledKernel`."""
    if "amdgcn" in kernel.asm:
        return _amd(kernel.asm["amdgcn"], int(kernel.metadata.shared))
    return _nvidia(kernel.asm["ptx"], int(kernel.metadata.shared), int(kernel.metadata.target.arch))


def _amd(text: str, shared: int) -> MachineCode:
    def last(pattern: str) -> int:
        found = re.findall(pattern, text)
        return int(found[-1]) if found else 0

    name, count = _matrix(text)
    return MachineCode(
        registers=last(r"\.vgpr_count:\s+(\d+)"),
        # Scalar registers are spilled to lanes of vector registers; where those run out it shows as scratch.
        spills=4 * last(r"\.vgpr_spill_count:\s+(\d+)"),
        scratch=last(r"\.private_segment_fixed_size:\s+(\d+)"),
        shared=shared,
        matrix=name,
        matrix_count=count,
        wide_loads=len(_WIDE_AMD.findall(text)),
    )


def _nvidia(ptx: str, shared: int, arch: int) -> MachineCode:
    registers, spills, stack = _assembled(ptx, arch)
    name, count = _matrix(ptx)
    return MachineCode(registers, spills, stack, shared, name, count, len(_WIDE_NVIDIA.findall(ptx)))


def _matrix(text: str) -> tuple[str, int]:
    for name, pattern in _MATRIX.items():
        count = len(pattern.findall(text))
        if count:
            return name, count
    return "", 0


def _assembled(ptx: str, arch: int) -> tuple[int, int, int]:
    """Registers, bytes spilled, bytes of stack; kept beside Triton's own cache by the text of the PTX."""
    from triton import knobs
    from triton.backends.nvidia.compiler import get_ptxas

    assembler = get_ptxas(arch)
    key = hashlib.sha256(f"{assembler.version}\n{ptx}".encode()).hexdigest()
    kept = Path(knobs.cache.dir) / "registers" / f"{key}.json"
    if kept.is_file():
        return tuple(json.loads(kept.read_text()))
    target = re.search(r"^\.target (\S+)", ptx, re.MULTILINE)
    assert target is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        name = target.group(1).rstrip(",")
        command = [
            assembler.path,
            "-v",
            f"--gpu-name={name}",
            str(source),
            "-o",
            str(Path(folder, "kernel.cubin")),
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", said)
    spilled = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
    assert registers is not None, said
    stack, stores, loads = (int(n) for n in spilled.groups()) if spilled else (0, 0, 0)
    result = (int(registers.group(1)), max(stores, loads), stack)
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(result))
    partial.replace(kept)
    return result


def as_dict(code: MachineCode) -> dict[str, Any]:
    """For JSON."""
    return asdict(code)
