"""The launch of a package's attention of one new token per request over the paged KV cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton

from sglang_platform.core.portable.triton.attention_shapes import (
    head_parts,
    one_element,
    shares_values,
    split_count,
)
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware
from sglang_platform.core.portable.triton.wrappers.stored_kv import stored_kv

__all__ = ["paged_decode"]


def paged_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    seq_lens: torch.Tensor,
    out: torch.Tensor,
    *,
    hardware: Hardware,
    decode_kernel: Any,
    merge_splits: Callable[..., None],
    scale: float,
    logit_cap: float = 0.0,
    window: int = -1,
    sinks: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    packed: torch.dtype | None = None,
    max_len: int | None = None,
    splits: int | None = None,
    workspace: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Fill `out` [B, Hq, Dv] and return it.

    q [B, Hq, D] float32, float16 or bfloat16; k_cache [S, Hk, D] and v_cache [S, Hk, Dv] of q's dtype or fp8, with
    contiguous last dimensions; `table` int32 [rows, C] holds slots by position, `rows` int [B] each request's row,
    `seq_lens` int [B] its tokens, the new one included (0 answers zeros). Absorbed MLA: Hk = 1 and v_cache is a view of
    k_cache's first Dv columns.

    scale: of the scores. logit_cap: 0 for none. window: how many earlier positions are seen, -1 for all. sinks float
    [Hq]: one more logit per head. k_scale, v_scale: float32 of one element, what stored fp8 values are multiplied by.
    packed: k_cache is uint8 [S, 1, bytes] of packed sparse-MLA rows (`memory.packed_fp8`) in this 8-bit format.

    splits: in how many parts each sequence is read; None chooses by the batch, the device and max_len (the most tokens
    of a request, the table's width when None). Fixed numbers of B and splits launch the same grid, whatever the
    lengths, as a captured graph needs. workspace: float32 [>= B * Hq * splits * Dv] and [>= B * Hq * splits], made
    when None.

    Handed in: the kernel that reads a split, and `merge_splits(partial, lse, seq_lens, out, *, sinks, splits, block_n,
    window)`, which joins the splits into `out`.

    Raises ValueError for shapes and dtypes that do not fit.
    """
    batch, q_heads, dim = q.shape
    values = out.shape[2]
    kv_heads = k_cache.shape[1]
    if out.shape[:2] != q.shape[:2] or q_heads % kv_heads or v_cache.shape[-1] < values:
        shapes = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "out": out}
        raise ValueError(
            f"paged_decode: { ({name: tuple(x.shape) for name, x in shapes.items()}) } do not fit"
        )
    if batch == 0:
        return out
    record = hardware.of(q.device)
    stored = stored_kv(hardware, k_cache, v_cache, packed)
    latent = packed is not None or shares_values(k_cache, v_cache, values)
    main, rest = head_parts(dim, values if latent else None)
    group = q_heads // kv_heads
    shape = record.decode_shape(
        dim, latent=latent, eight_bit=stored.name != "", float32=q.dtype == torch.float32
    )
    block_h = min(max(16, triton.next_power_of_2(group)), shape.block_h)
    head_blocks = triton.cdiv(group, block_h)
    visible = table.shape[1] if max_len is None else max_len
    visible = min(visible, window + 1) if window >= 0 else visible
    if splits is None:
        splits = split_count(record.processors, shape.waves, batch * kv_heads * head_blocks, visible)
    if splits > 1:
        count = batch * q_heads * splits
        if workspace is None:
            partial = torch.empty(count * values, dtype=torch.float32, device=q.device)
            lse = torch.empty(count, dtype=torch.float32, device=q.device)
        else:
            partial, lse = workspace
        into, strides = partial, (q_heads * splits * values, splits * values)
    else:
        into, lse, strides = out, seq_lens, (out.stride(0), out.stride(1))
    decode_kernel[(batch, kv_heads * head_blocks, splits)](
        q, stored.k, stored.v, table, rows, seq_lens, into, lse,
        q if sinks is None else sinks, *one_element(q, k_scale, v_scale),
        scale, logit_cap, window, splits,
        q.stride(0), q.stride(1), stored.k.stride(0), stored.k.stride(1), stored.v.stride(0), stored.v.stride(1),
        table.stride(0), *strides,
        GROUP=group, HEAD_BLOCKS=head_blocks, D=dim, DV=values, MAIN=main, REST=rest,
        VALUES=main if latent else triton.next_power_of_2(values), LATENT=latent, PACKED=packed is not None,
        FORMAT=stored.name, IN_HARDWARE=stored.in_hardware, SCALED=k_scale is not None or v_scale is not None,
        CAPPED=logit_cap > 0, SINKS=sinks is not None, SPLIT=splits > 1,
        BLOCK_H=block_h, BLOCK_N=shape.block_n, **shape.options(),
    )  # fmt: skip
    if splits > 1:
        merge_splits(
            partial, lse, seq_lens, out, sinks=sinks, splits=splits, block_n=shape.block_n, window=window
        )
    return out
