"""Core's fused ops served by the Triton kernels, to be registered under a dispatch key.

Each takes the op itself first, core's or the host's. For tensors on the CPU, and for every variant that the kernels do
not know, they return NotImplemented, and the original forward runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from sglang_platform.core.counters import counter
from sglang_platform.core.ops.fused_op import FusedOp, RMSNorm, RotaryEmbedding, SiluAndMul
from sglang_platform.core.portable.triton import activation, norm, rotary
from sglang_platform.core.portable.triton.keys_to_store import keys_to_store
from sglang_platform.core.portable.triton.launch import ShapesOf, launches, portable_shapes

__all__ = ["FORWARDS", "register", "rms_norm", "rotary_embedding", "silu_and_mul"]

_calls = counter("triton.fused_ops.calls")
_stores = counter("triton.fused_ops.stores")


def register(
    dispatch_key: str,
    shapes_of: ShapesOf = portable_shapes,
    rotate_and_store: Callable[..., None] | None = None,
) -> None:
    """Register the forwards of core's fused ops under this key, with the launch shapes of the device's record.

    rotate_and_store: the package's `wrappers.rotary_store`. Without it, calls that also store keys stay with the host.
    """
    for op_cls, forward in FORWARDS.items():
        handed_in: dict[str, Any] = {"shapes_of": shapes_of}
        if forward is rotary_embedding:
            handed_in["rotate_and_store"] = rotate_and_store
        FusedOp.register_oot_forward(op_cls, _launched(forward, handed_in), dispatch_key)


def _launched(forward: Callable[..., Any], handed_in: dict[str, Any]) -> Callable[..., Any]:
    # A plain function: core and hosts bind it to the op as a method.
    @wraps(forward)
    def launched(op: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(op, *args, **handed_in, **kwargs)

    return launched


def rms_norm(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
    quant_linear: Any = None,
    *,
    shapes_of: ShapesOf = portable_shapes,
) -> Any:
    """`RMSNorm`. With a residual, x and residual are overwritten, as SGLang's callers expect of its own kernels."""
    known = (
        launches(x)
        and x.numel() > 0
        and op.variance_size_override is None
        and op.override_orig_dtype is None
        and not op.fp32_residual
        and post_residual_addition is None
        and quant_linear is None
        and (residual is None or (x.is_contiguous() and residual.is_contiguous()))
    )
    if not known:
        return NotImplemented
    _calls.add()
    launch = shapes_of(x.device).reduce
    round_first = bool(op.cast_x_before_out_mul)
    if residual is None:
        return norm.rms_norm(x, op.weight, op.variance_epsilon, round_first=round_first, launch=launch)
    rows, kept = x.view(-1, x.shape[-1]), residual.view(-1, x.shape[-1])
    norm.fused_add_rms_norm(
        rows, kept, op.weight, op.variance_epsilon, round_first=round_first, launch=launch
    )
    return x, residual


def silu_and_mul(op: Any, x: torch.Tensor, *, shapes_of: ShapesOf = portable_shapes) -> Any:
    """`SiluAndMul`."""
    if not launches(x):
        return NotImplemented
    _calls.add()
    return activation.silu_and_mul(x, launch=shapes_of(x.device).elementwise)


def rotary_embedding(
    op: Any,
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    offsets: torch.Tensor | None = None,
    fused_set_kv_buffer_arg: Any = None,
    *,
    shapes_of: ShapesOf = portable_shapes,
    rotate_and_store: Callable[..., None] | None = None,
) -> Any:
    """`RotaryEmbedding`, in place on query [T, Hq * D] and key [T, Hk * D]; the keys and values that the host wants
    stored go to its cache in the same launch."""
    known = (
        launches(query)
        and query.dim() == key.dim() == 2
        and query.stride(-1) == key.stride(-1) == 1
        and (fused_set_kv_buffer_arg is None or rotate_and_store is not None)
    )
    if not known:
        return NotImplemented
    positions = positions.flatten() if offsets is None else (positions + offsets).flatten()
    if fused_set_kv_buffer_arg is not None and rotate_and_store is not None:
        stored = keys_to_store(fused_set_kv_buffer_arg, key)
        if stored is None or positions.numel() != key.shape[0]:
            return NotImplemented
        words = {"head_dim": op.head_size, "cos_sin_cache": op.cos_sin_cache, "neox": op.is_neox_style}
        rotate_and_store(positions, query, key, **words, **stored)
        _stores.add()
    else:
        launch = shapes_of(query.device).elementwise
        arguments = positions, query, key, op.head_size, op.cos_sin_cache
        rotary.rotary_embedding(*arguments, neox=op.is_neox_style, launch=launch)
    _calls.add()
    return query, key


FORWARDS: dict[type[FusedOp], Any] = {
    RMSNorm: rms_norm,
    SiluAndMul: silu_and_mul,
    RotaryEmbedding: rotary_embedding,
}
