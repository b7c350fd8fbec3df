"""The launch wrapper of a package's decode attention: one new token per request over the paged KV cache."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import Any, NamedTuple

import torch

from sglang_platform.core.portable.triton.attention_layer import LayerRule
from sglang_platform.core.portable.triton.attention_shapes import (
    TOKENS_PER_PART,
    head_parts,
    shares_values,
    split_count,
)
from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2
from sglang_platform.core.portable.triton.split_work import SplitPlan, plan_parts
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware
from sglang_platform.core.portable.triton.wrappers.record import DecodeShape
from sglang_platform.core.portable.triton.wrappers.stored_kv import stored_kv

__all__ = ["WholePages", "paged_decode"]

_MOST_BYTES = 1 << 27
"""Limit of the partial results if the batch fills the device without splitting: in a long sparse prefill every new
token is a row."""


class WholePages(NamedTuple):
    """How a package's decode kernel reads whole pages: its launch shape and additional arguments."""

    shape: DecodeShape
    arguments: Mapping[str, Any]


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
    merge_parts: Callable[..., None],
    whole_pages: Callable[..., WholePages | None] | None = None,
    packed: torch.dtype | None = None,
    page_size: int = 1,
    max_len: int | None = None,
    alike: bool = False,
    plans: MutableMapping[Hashable, SplitPlan] | None = None,
    splits: int | None = None,
    **asked: Any,
) -> torch.Tensor:
    """Fill `out` [B, Hq, Dv] and return it.

    q [B, Hq, D] float32, float16 or bfloat16; k_cache [S, Hk, D] and v_cache [S, Hk, Dv] of q's dtype or fp8, with
    contiguous last dimensions; `table` int32 [rows, C] holds slots by position, `rows` int [B] each request's row,
    `seq_lens` int [B] its tokens, the new one included (0 answers zeros). Absorbed MLA: Hk = 1 and v_cache is a view of
    k_cache's first Dv columns.

    asked: the fields of `LayerRule`. packed: k_cache is uint8 [S, 1, bytes] of packed sparse-MLA rows
    (`memory.packed_fp8`) in this 8-bit format.

    page_size: if it is more than 1, the tokens from each multiple of it on lie in consecutive slots, the first of which
    is a multiple of page_size.

    alike: no request has more than twice the average tokens, known on the CPU. plans: keeps the plan of parts for the
    next layer of the same step; an empty one, or None, makes a new plan, which a captured graph repeats in each replay.

    splits: the average number of parts per sequence, more for long ones and fewer for short ones; None chooses by the
    batch, the device and max_len (the most tokens of a request, the table's width when None). Fixed numbers of B and
    splits launch the same grid, whatever the lengths, as a captured graph needs.

    decode_kernel: reads one part. merge_parts: `merge.merge_parts`, which joins the parts. whole_pages: for a device
    that reads whole pages faster than single slots, a function that returns `WholePages`, or None for a call where it
    does not. Packed rows, and windows, whose first token may be anywhere in a page, are read slot by slot.

    Raises ValueError for shapes and dtypes that do not fit.
    """
    rule = LayerRule(**asked)
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
    whole = None
    if whole_pages is not None and rule.window < 0 and packed is None:
        whole = whole_pages(
            record, stored, page_size=page_size, dtype=q.dtype, dim=dim, values=values, latent=latent
        )
    if whole is not None:
        shape = whole.shape
    else:
        shape = record.decode_shape(
            dim,
            latent=latent,
            eight_bit=stored.name != "",
            float32=q.dtype == torch.float32,
            packed=packed is not None,
        )
    block_h = min(max(16, next_power_of_2(group)), shape.block_h)
    head_blocks = cdiv(group, block_h)
    visible = table.shape[1] if max_len is None else max_len
    visible = min(visible, rule.window + 1) if rule.window >= 0 else visible
    split = splits is not None and splits > 1
    least = 1
    if splits is None:
        splits = split_count(record.processors, shape.waves, batch * kv_heads * head_blocks, visible)
        # Where the batch fills the device, only for what is longer than twice the average.
        room = 4 * q_heads * values * batch * (splits + 1)
        uneven = batch > 1 and not alike and room <= _MOST_BYTES
        split = visible > TOKENS_PER_PART and (splits > 1 or uneven)
        least = max(1, TOKENS_PER_PART // shape.block_n)
    wanted = batch * splits if splits > 1 else cdiv(batch, 2)
    plan = SplitPlan(seq_lens, seq_lens)
    most = batch
    if split:
        key = (seq_lens.data_ptr(), batch, wanted, least, rule.window, shape.block_n)
        kept = None if plans is None else plans.get(key)
        plan = kept or plan_parts(
            seq_lens, wanted=wanted, least=least, window=rule.window, block_n=shape.block_n
        )
        if plans is not None:
            plans[key] = plan
        most = plan.owner.shape[0]
    partial, lse = out, seq_lens
    if split:
        partial = torch.empty(most * q_heads * values, dtype=torch.float32, device=q.device)
        lse = torch.empty(most * q_heads, dtype=torch.float32, device=q.device)
    decode_kernel[(most, kv_heads * head_blocks)](
        q, stored.k, stored.v, table, rows, seq_lens, out, partial, lse,
        *rule.values(q), plan.owner, plan.first, batch,
        q.stride(0), q.stride(1), stored.k.stride(0), stored.k.stride(1), stored.v.stride(0), stored.v.stride(1),
        table.stride(0), out.stride(0), out.stride(1),
        GROUP=group, HEAD_BLOCKS=head_blocks, D=dim, DV=values, MAIN=main, REST=rest,
        VALUES=main if latent else next_power_of_2(values), LATENT=latent, PACKED=packed is not None,
        FORMAT=stored.name, IN_HARDWARE=stored.in_hardware, **rule.flags(), SPLIT=split,
        BLOCK_H=block_h, BLOCK_N=shape.block_n, **shape.options(),
        **({} if whole is None else whole.arguments),
    )  # fmt: skip
    if split:
        merge_parts(partial, lse, plan.first, out, sinks=rule.sinks)
    return out
