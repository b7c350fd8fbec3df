"""Launches of kernels as served models make them, for compiling without a device: one function per kernel family.

A family's function takes the launch wrapper of the declaration, and for families that store or read 8-bit floats the
type of the caches. It returns `{name: function}`, see `KernelDeclaration.launches`. Tensors are on the CPU and nothing
is executed, so their content does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from sglang_platform.conformance.kernels.load import named
from sglang_platform.conformance.kernels.served import decode, extend, memory, operators, sparse
from sglang_platform.conformance.kernels.served.launches import Launches
from sglang_platform.core.contract.kernels import KernelDeclaration, KernelTarget

__all__ = ["FAMILIES", "FAMILIES_WITH_FP8", "launches_of"]

FAMILIES: Mapping[str, Callable[..., Launches]] = {
    "kv_move": memory.moved_rows,
    "dsa_index_store": operators.index_keys,
    "extend_slots": operators.extend_step,
    "decode_slots": operators.decode_step,
    "rms_norm": operators.normalisation,
    "fused_add_rms_norm": operators.residual_normalisation,
    "silu_and_mul": operators.activation,
    "rotary_embedding": operators.rotation,
    "top_slots": sparse.select_launches,
}
"""By the family's name in the suite: `(wrapper)`."""

FAMILIES_WITH_FP8: Mapping[str, Callable[..., Launches]] = {
    "kv_store": memory.stored_rows,
    "rotary_store": memory.rotated_keys,
    "dsa_packed_store": memory.packed_rows,
    "quantise_per_token": memory.quantisation,
    "decode": decode.decode_launches,
    "sparse_decode": decode.sparse_launches,
    "extend": extend.extend_launches,
    "index_logits": sparse.index_launches,
}
"""By the family's name in the suite: `(wrapper, eight_bit)`."""


def launches_of(declared: KernelDeclaration, target: KernelTarget) -> Launches:
    """What is launched for `declared` on `target`: its own launches, or those of its family.

    Raises ValueError where it names none and its family has none, or its family needs an 8-bit type and it names none.
    """
    if declared.launches is not None:
        launches: Launches = named(declared.launches)()
        return launches
    if declared.check in FAMILIES:
        return FAMILIES[declared.check](named(declared.entry))
    if declared.check not in FAMILIES_WITH_FP8:
        raise ValueError(
            f"{declared.name}: the suite has no launches of {declared.check!r}; declare `launches`"
        )
    if not declared.fp8_formats:
        raise ValueError(f"{declared.name}: the launches of {declared.check!r} need one of `fp8_formats`")
    name = target.e4m3 if target.e4m3 in declared.fp8_formats else declared.fp8_formats[0]
    return FAMILIES_WITH_FP8[declared.check](named(declared.entry), getattr(torch, name))
