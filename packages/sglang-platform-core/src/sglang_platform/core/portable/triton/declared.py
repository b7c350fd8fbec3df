"""The declarations of the portable kernels, for a platform that launches them: how each is checked without a device."""

from __future__ import annotations

from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration, KernelTarget

__all__ = ["INTEGERS", "STREAM", "portable_kernels"]

_HERE = "sglang_platform.core.portable.triton"

STREAM = CompileLimits(
    why="bound by memory: each lane must load 16 bytes at once, and a spill would add traffic of its own"
)
INTEGERS = CompileLimits(
    why="a few integers per token in L2: latency counts, not the width of a load", wide_loads=False
)
_SELECTION = CompileLimits(
    why="five passes over a row that stays in L2: the histogram's atomics bound it, and rows of any length start "
    "anywhere, so loads are 4 bytes per lane",
    wide_loads=False,
)

# name, module, function, launches, jitted function, its limits
_KERNELS = (
    ("extend_slots", "page_slots:extend_slots", "served_ops:extend_step", "extend_slots_kernel", INTEGERS),
    ("decode_slots", "page_slots:decode_slots", "served_ops:decode_step", "decode_slots_kernel", INTEGERS),
    ("rms_norm", "norm:rms_norm", "served_ops:normalisation", "rms_norm_kernel", STREAM),
    (
        "fused_add_rms_norm",
        "norm:fused_add_rms_norm",
        "served_ops:residual_normalisation",
        "rms_norm_kernel",
        STREAM,
    ),
    ("silu_and_mul", "activation:silu_and_mul", "served_ops:activation", "silu_and_mul_kernel", STREAM),
    ("rotary_embedding", "rotary:rotary_embedding", "served_ops:rotation", "rotary_kernel", STREAM),
    (
        "dsa_index_store",
        "index_key_store:store_index_keys",
        "served_ops:index_keys",
        "store_index_keys_kernel",
        STREAM,
    ),
    ("top_slots", "top_slots:top_slots", "served_sparse:select_launches", "top_slots_kernel", _SELECTION),
)


def portable_kernels(targets: tuple[KernelTarget, ...]) -> tuple[KernelDeclaration, ...]:
    """The declarations, for these architectures."""
    return tuple(
        KernelDeclaration(
            name=name,
            entry=f"{_HERE}.{entry}",
            check=name,
            launches=f"{_HERE}.{launches}",
            limits={function: limits},
            targets=targets,
        )
        for name, entry, launches, function, limits in _KERNELS
    )
