"""The launch of a package's rotary positions together with the store of the rotated keys, and of the values."""

from __future__ import annotations

from typing import Any

import torch
import triton

from sglang_platform.core.memory.rows import Scale
from sglang_platform.core.portable.triton.architecture import Launch
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware
from sglang_platform.core.portable.triton.wrappers.kv_store import scale_kind

__all__ = ["rotate_and_store"]


def rotate_and_store(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_dim: int,
    cos_sin_cache: torch.Tensor,
    k_out: torch.Tensor,
    v_out: torch.Tensor,
    loc: torch.Tensor,
    k_scale: Scale = None,
    v_scale: Scale = None,
    *,
    neox: bool,
    hardware: Hardware,
    rotary_store_kernel: Any,
    slots: torch.Tensor | None = None,
    launch: Launch | None = None,
) -> None:
    """Rotate `query` [T, Hq * head_dim] and `key` [T, Hk * head_dim] in place, and store the rotated keys and `value`
    [T, V] at rows `loc` int [T] of `k_out` [slots, Hk * head_dim] and `v_out` [slots, V].

    `positions` int [T]; `cos_sin_cache` [positions, r], r <= head_dim even, cosines first. Rows of all may lie apart;
    within a row they are contiguous. `k_out` and `v_out` have one type: keys and values of another are divided by their
    scale (a number or a tensor of one element), and cast; those of the same are stored as they are, as in
    `core.memory.rows.cast_rows`. slots: `loc` names places of it, and it the rows. Rows below zero are not stored.

    Raises ValueError where widths do not fit, or the kernels do not know the type of the cache.
    """
    tokens, half = positions.numel(), cos_sin_cache.shape[-1] // 2
    rows, caches = (key, value), (k_out, v_out)
    if [x.shape[1] for x in rows] != [x.shape[1] for x in caches] or not 0 < 2 * half <= head_dim:
        told = [(tuple(x.shape), x.dtype) for x in (*rows, *caches)]
        raise ValueError(f"keys, values and caches {told}, {2 * half} of {head_dim} columns turned")
    if tokens == 0:
        return
    fp8_format, in_hardware = hardware.fp8(k_out.dtype, query.device)
    if k_out.dtype == key.dtype:
        k_scale = v_scale = None
    k_scale, v_scale = (float(one) if isinstance(one, int) else one for one in (k_scale, v_scale))
    if fp8_format:
        k_out, v_out = k_out.view(torch.uint8), v_out.view(torch.uint8)
    launch = launch or hardware.of(query.device).shapes.elementwise
    query_heads, key_heads = query.shape[-1] // head_dim, key.shape[-1] // head_dim
    block_half = triton.next_power_of_2(half)
    block_h = min(
        max(launch.elements // (2 * block_half), 1), triton.next_power_of_2(max(query_heads, key_heads))
    )
    block_v = min(triton.next_power_of_2(value.shape[1]), launch.elements)
    rest = head_dim - 2 * half
    parts = triton.cdiv(query_heads, block_h) + triton.cdiv(key_heads, block_h)
    parts += triton.cdiv(value.shape[1], block_v)
    rotary_store_kernel[(tokens, parts)](
        query, key, value, k_out, v_out, positions, cos_sin_cache, loc, loc if slots is None else slots,
        1.0 if k_scale is None else k_scale, 1.0 if v_scale is None else v_scale,
        query.stride(0), key.stride(0), value.stride(0), cos_sin_cache.stride(0), k_out.stride(0), v_out.stride(0),
        QUERY_HEADS=query_heads, KEY_HEADS=key_heads, HEAD_DIM=head_dim, V_WIDTH=value.shape[1],
        HALF=half, BLOCK_HALF=block_half, BLOCK_REST=triton.next_power_of_2(rest) if rest else 0, NEOX=neox,
        RENUMBERED=slots is not None, K_SCALE=scale_kind(k_scale), V_SCALE=scale_kind(v_scale),
        FORMAT=fp8_format, IN_HARDWARE=in_hardware, BLOCK_H=block_h, BLOCK_V=block_v,
        num_warps=launch.num_warps,
    )  # fmt: skip
