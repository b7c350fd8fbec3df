"""What the platform declares of its kernels: how each is checked without a device. Imports no compiler."""

from __future__ import annotations

from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration
from sglang_platform.core.portable.triton.declared import STREAM, portable_kernels
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = ["KERNELS"]

_HERE = "sglang_platform.rocm.kernels"
_TARGETS = tuple(ARCHITECTURES.values())
_FP8 = ("float8_e4m3fnuz", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e5m2")
_E4M3 = ("float8_e4m3fnuz", "float8_e4m3fn")

_DECODE = CompileLimits(
    why="the loop is bound by memory: a spilled accumulator would be read and written at every block, narrow loads "
    "halve the bandwidth, and without matrix cores the products become the bound",
    matrix=True,
)
_MERGE = CompileLimits(
    why="one row of float32 per split and nothing to multiply; rows of 64 floats are loaded 8 bytes per lane",
    wide_loads=False,
    registers=128,
)
_EXTEND = CompileLimits(
    why="the loop is bound by matrix cores; spills and narrow loads put memory in its way",
    matrix=True,
)
_INDEX = CompileLimits(
    why="64 heads against 64 keys of 128 columns: a matrix product per 8 KiB of keys", matrix=True
)


def _declared(
    name: str,
    entry: str,
    check: str,
    limits: dict[str, CompileLimits],
    fp8_formats: tuple[str, ...] = (),
) -> KernelDeclaration:
    return KernelDeclaration(
        name=name,
        entry=f"{_HERE}.{entry}",
        check=check,
        limits=limits,
        targets=_TARGETS,
        fp8_formats=fp8_formats,
    )


_SPLIT = {"decode_kernel": _DECODE, "merge_kernel": _MERGE}

KERNELS = (
    _declared("kv_store", "kv_store:store_pair", "kv_store", {"store_pair_kernel": STREAM}, _FP8),
    _declared("kv_move", "kv_move:move_rows", "kv_move", {"move_rows_kernel": STREAM}),
    _declared(
        "dsa_packed_store",
        "dsa_store:store_packed",
        "dsa_packed_store",
        {"store_packed_kernel": STREAM},
        _E4M3,
    ),
    _declared(
        "quantise_per_token",
        "quantise:quantise_per_token",
        "quantise_per_token",
        {"quantise_kernel": STREAM},
        _FP8,
    ),
    _declared("paged decode", "decode:paged_decode", "decode", _SPLIT, _FP8),
    _declared("paged extend", "extend:paged_extend", "extend", {"extend_kernel": _EXTEND}, _FP8),
    _declared("sparse decode", "decode:paged_decode", "sparse_decode", _SPLIT, _E4M3),
    _declared(
        "index logits",
        "dsa_index:index_logits",
        "index_logits",
        {"index_logits_kernel": _INDEX},
        _E4M3,
    ),
    *portable_kernels(_TARGETS),
)
