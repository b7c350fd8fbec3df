"""The declarations of the kernels for memory and fused ops: how each is checked without a device."""

from __future__ import annotations

from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration

__all__ = ["KERNELS"]

_HERE = "sglang_platform.cuda.kernels"

_STREAM = CompileLimits(
    why="bound by memory: each lane must load 16 bytes at once, and a spill would add traffic of its own"
)
_INTEGERS = CompileLimits(
    why="a few integers per token in L2: latency counts, not the width of a load", wide_loads=False
)


def _declared(
    name: str,
    module: str,
    function: str,
    launches: str,
    limits: dict[str, CompileLimits],
    check: str | None = None,
) -> KernelDeclaration:
    return KernelDeclaration(
        name=name,
        entry=f"{_HERE}.{module}:{function}",
        check=check or function,
        launches=f"{_HERE}.served_launches:{launches}",
        limits=limits,
    )


KERNELS = (
    _declared(
        "kv_store", "kv_store", "store_pair", "stored_rows", {"store_pair_kernel": _STREAM}, "kv_store"
    ),
    _declared("kv_move", "kv_move", "move_rows", "moved_rows", {"move_rows_kernel": _STREAM}, "kv_move"),
    _declared(
        "dsa_packed_store",
        "dsa_store",
        "store_packed",
        "packed_rows",
        {"store_packed_kernel": _STREAM},
        "dsa_packed_store",
    ),
    _declared(
        "dsa_index_store",
        "dsa_store",
        "store_index_keys",
        "index_keys",
        {"store_index_keys_kernel": _STREAM},
        "dsa_index_store",
    ),
    _declared(
        "extend_slots", "page_slots", "extend_slots", "extend_step", {"extend_slots_kernel": _INTEGERS}
    ),
    _declared(
        "decode_slots", "page_slots", "decode_slots", "decode_step", {"decode_slots_kernel": _INTEGERS}
    ),
    _declared("rms_norm", "norm", "rms_norm", "normalisation", {"rms_norm_kernel": _STREAM}),
    _declared(
        "fused_add_rms_norm",
        "norm",
        "fused_add_rms_norm",
        "residual_normalisation",
        {"rms_norm_kernel": _STREAM},
    ),
    _declared("silu_and_mul", "activation", "silu_and_mul", "activation", {"silu_and_mul_kernel": _STREAM}),
    _declared("rotary_embedding", "rotary", "rotary_embedding", "rotation", {"rotary_kernel": _STREAM}),
    _declared(
        "quantise_per_token", "quantise", "quantise_per_token", "quantisation", {"quantise_kernel": _STREAM}
    ),
)
