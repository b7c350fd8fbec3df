"""The declarations of a package: its own kernels, the shared ones, and the portable ones. Imports no compiler."""

from __future__ import annotations

from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration, KernelTarget
from sglang_platform.core.portable.triton.declared import INTEGERS, STREAM, portable_kernels

__all__ = ["package_kernels"]

_DECODE = CompileLimits(
    why="the loop is bound by memory: a spilled accumulator would be read and written at every block, narrow loads "
    "halve the bandwidth, and without matrix units the products become the bound",
    matrix=True,
)
_MERGE = CompileLimits(
    why="the rows of several parts are on their way together; nothing to multiply",
    registers=128,
)
_EXTEND = CompileLimits(
    why="the loop is bound by matrix units; spills and narrow loads put memory in its way",
    matrix=True,
)
_INDEX = CompileLimits(
    why="64 heads against 64 keys of 128 columns: a matrix product per 8 KiB of keys", matrix=True
)
_SPLIT = {"decode_kernel": _DECODE, "merge_kernel": _MERGE, "plan_kernel": INTEGERS}

# name, entry in the package, the family in the suite, the limits of its jitted functions, whether it knows e4m3 only
_KERNELS = (
    ("kv_store", "hardware:store_pair", "kv_store", {"store_pair_kernel": STREAM}, False),
    ("rotary_store", "hardware:rotate_and_store", "rotary_store", {"rotary_store_kernel": STREAM}, False),
    ("dsa_packed_store", "hardware:store_packed", "dsa_packed_store", {"store_packed_kernel": STREAM}, True),
    (
        "quantise_per_token",
        "hardware:quantise_per_token",
        "quantise_per_token",
        {"quantise_kernel": STREAM},
        False,
    ),
    ("paged decode", "decode:paged_decode", "decode", _SPLIT, False),
    ("paged extend", "hardware:paged_extend", "extend", {"extend_kernel": _EXTEND}, False),
    ("sparse decode", "decode:paged_decode", "sparse_decode", _SPLIT, True),
    ("index logits", "hardware:index_logits", "index_logits", {"index_logits_kernel": _INDEX}, True),
)


def package_kernels(
    package: str, targets: tuple[KernelTarget, ...], fp8_formats: tuple[str, ...]
) -> tuple[KernelDeclaration, ...]:
    """The declarations of the modules of `package` (`"vendor.kernels"`), for these architectures.

    fp8_formats: those of its caches, by torch's names. Where models use e4m3 only, only those are declared.
    """
    e4m3 = tuple(name for name in fp8_formats if "e4m3" in name)
    own = tuple(
        KernelDeclaration(
            name=name,
            entry=f"{package}.{entry}",
            check=check,
            limits=limits,
            targets=targets,
            fp8_formats=e4m3 if only_e4m3 else fp8_formats,
        )
        for name, entry, check, limits, only_e4m3 in _KERNELS
    )
    return (*own, *portable_kernels(targets))
