"""The attention kernels, declared for checks without a device."""

from __future__ import annotations

from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration

__all__ = ["KERNELS"]

_HERE = "sglang_platform.cuda.kernels"

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
    KernelDeclaration(
        name="sparse decode",
        entry=f"{_HERE}.decode:paged_decode",
        check="sparse_decode",
        launches=f"{_HERE}.launches_decode:sparse_launches",
        limits={"decode_kernel": _DECODE, "merge_kernel": _MERGE},
    ),
    KernelDeclaration(
        name="index logits",
        entry=f"{_HERE}.dsa_index:index_logits",
        check="index_logits",
        launches=f"{_HERE}.launches_dsa:index_launches",
        limits={
            "index_logits_kernel": CompileLimits(
                why="64 heads against 64 keys of 128 columns: a matrix product per 8 KiB of keys", matrix=True
            )
        },
    ),
    KernelDeclaration(
        name="top slots",
        entry=f"{_HERE}.dsa_topk:top_slots",
        check="top_slots",
        launches=f"{_HERE}.launches_dsa:select_launches",
        limits={
            "top_slots_kernel": CompileLimits(
                why="five passes over a row that stays in L2: the histogram's atomics bound it, and rows of any length "
                "start anywhere, so loads are 4 bytes per lane",
                wide_loads=False,
            )
        },
    ),
)
