"""Holds machine code against the limits a kernel declares."""

from __future__ import annotations

from sglang_platform.conformance.kernels.compile.machine_code import MachineCode
from sglang_platform.core.contract.kernels import CompileLimits, KernelTarget

__all__ = ["faults"]


def faults(code: MachineCode, limits: CompileLimits, target: KernelTarget) -> list[str]:
    """What is wrong, in words; empty where all is well."""
    limits = limits.on(target.name)
    found = []
    if code.shared > target.shared:
        found.append(f"{code.shared} bytes of shared memory, {target.name} has {target.shared}")
    if code.spills > limits.spills:
        found.append(f"{code.spills} bytes of registers spilled, at most {limits.spills} are allowed")
    # Memory beside the spills: an array that the compiler could not keep in registers, which is as slow.
    if code.scratch > limits.spills + _FRAME:
        found.append(f"{code.scratch} bytes of scratch memory per thread")
    if limits.registers is not None and code.registers > limits.registers:
        found.append(f"{code.registers} registers, at most {limits.registers} are allowed")
    if limits.matrix and not code.matrix:
        found.append("no matrix instruction: the products run on the vector units")
    if limits.wide_loads and not code.wide_loads:
        found.append("no load of 16 bytes per lane: alignment or contiguity was lost")
    return found


# What a stack frame may hold without a spill: alignment.
_FRAME = 16
