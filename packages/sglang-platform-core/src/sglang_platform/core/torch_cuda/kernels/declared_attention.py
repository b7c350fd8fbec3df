"""The attention kernels, declared for checks without a device."""

from __future__ import annotations

from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration

__all__ = ["KERNELS"]

_HERE = "sglang_platform.core.torch_cuda.kernels"

_DECODE = CompileLimits(
    why="the loop is bound by memory: a spilled accumulator would be read and written at every block, narrow loads "
    "halve the bandwidth, and without matrix units the products become the bound",
    matrix=True,
)
_MERGE = CompileLimits(
    why="one row of float32 per split and nothing to multiply; rows of 64 floats are loaded 8 bytes per lane",
    wide_loads=False,
    registers=128,
)
_EXTEND = CompileLimits(
    why="the loop is bound by matrix units; spills and narrow loads put memory in its way",
    matrix=True,
)

KERNELS = (
    KernelDeclaration(
        name="paged decode",
        entry=f"{_HERE}.decode:paged_decode",
        check="decode",
        launches=f"{_HERE}.launches_decode:decode_launches",
        limits={"decode_kernel": _DECODE, "merge_kernel": _MERGE},
    ),
    KernelDeclaration(
        name="paged extend",
        entry=f"{_HERE}.extend:paged_extend",
        check="extend",
        launches=f"{_HERE}.launches_extend:extend_launches",
        limits={"extend_kernel": _EXTEND},
    ),
)
