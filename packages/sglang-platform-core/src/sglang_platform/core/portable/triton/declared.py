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

# entry, jitted function, its limits, by the name of the family in the suite
_KERNELS = {
    "extend_slots": ("page_slots:extend_slots", "extend_slots_kernel", INTEGERS),
    "decode_slots": ("page_slots:decode_slots", "decode_slots_kernel", INTEGERS),
    "rms_norm": ("norm:rms_norm", "rms_norm_kernel", STREAM),
    "fused_add_rms_norm": ("norm:fused_add_rms_norm", "rms_norm_kernel", STREAM),
    "silu_and_mul": ("activation:silu_and_mul", "silu_and_mul_kernel", STREAM),
    "rotary_embedding": ("rotary:rotary_embedding", "rotary_kernel", STREAM),
    "kv_move": ("kv_move:move_rows", "move_rows_kernel", STREAM),
    "dsa_index_store": ("index_key_store:store_index_keys", "store_index_keys_kernel", STREAM),
    "top_slots": ("top_slots:top_slots", "top_slots_kernel", _SELECTION),
}


def portable_kernels(targets: tuple[KernelTarget, ...]) -> tuple[KernelDeclaration, ...]:
    """The declarations, for these architectures."""
    return tuple(
        KernelDeclaration(
            name=name,
            entry=f"{_HERE}.{entry}",
            check=name,
            limits={function: limits},
            targets=targets,
        )
        for name, (entry, function, limits) in _KERNELS.items()
    )
