"""The launch of a package's attention of several new tokens per request over its cached prefix and themselves."""

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

__all__ = ["paged_extend"]


def paged_extend(
    q: torch.Tensor,
    k_new: torch.Tensor | None,
    v_new: torch.Tensor | None,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    table: torch.Tensor,
    rows: torch.Tensor,
    query_start: torch.Tensor,
    prefix_lens: torch.Tensor,
    out: torch.Tensor,
    *,
    hardware: Hardware,
    extend_kernel: Any,
    merge_parts: Callable[..., None],
    max_new: int,
    max_prefix: int | None = None,
    splits: int | None = None,
    scale: float,
    causal: bool = True,
    logit_cap: float = 0.0,
    window: int = -1,
    sinks: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Fill `out` [T, Hq, Dv] and return it.

    q [T, Hq, D]: the new tokens of all requests, request by request; k_new [T, Hk, D] and v_new [T, Hk, Dv] their keys
    and values, or None where the caches hold them already. Caches, `table`, `rows` and the options as in
    `decode.paged_decode`; k_scale and v_scale apply to cached values only. `query_start` int [B + 1]: where each
    request's tokens begin, and T. `prefix_lens` int [B]: cached tokens before them. max_new: the most new tokens of a
    request, max_prefix: the most cached ones, the table's width when None (both known on the CPU, so nothing waits for
    the device). splits: in how many parts the cached keys are read; None chooses so that the device is full.

    Handed in: the kernel, and `merge.merge_equal_parts`.

    Raises ValueError for shapes and dtypes that do not fit.
    """
    tokens, q_heads, dim = q.shape
    values = out.shape[2]
    kv_heads = k_cache.shape[1] if k_new is None else k_new.shape[1]
    if out.shape[:2] != q.shape[:2] or q_heads % kv_heads or (k_new is None) != (v_new is None):
        raise ValueError(f"paged_extend: q {tuple(q.shape)}, {kv_heads} KV heads, out {tuple(out.shape)}")
    batch = prefix_lens.shape[0]
    if tokens == 0 or batch == 0 or max_new == 0:
        return out
    stored = stored_kv(hardware, k_cache, v_cache)
    latent = k_new is None and shares_values(k_cache, v_cache, values)
    main, rest = head_parts(dim, values if latent else None)
    record = hardware.of(q.device)
    shape = record.extend_shape(
        dim,
        latent=latent,
        widened=stored.name != "" and not stored.in_hardware,
        float32=q.dtype == torch.float32,
    )
    new_k, new_v = (q, q) if k_new is None or v_new is None else (k_new, v_new)
    if new_k.stride(-1) != 1 or new_v.stride(-1) != 1 or q.stride(-1) != 1 or out.stride(-1) != 1:
        raise ValueError("paged_extend: the last dimension of q, k_new, v_new and out must be contiguous")
    group = q_heads // kv_heads
    blocks = triton.cdiv(max_new * group, shape.block_m)
    if splits is None:
        cached = table.shape[1] if max_prefix is None else max_prefix
        cached = min(cached, window + max_new) if window >= 0 else cached
        programs = blocks * kv_heads * batch
        splits = split_count(record.processors, 1, programs, cached) if programs < record.processors else 1
    # float32 also where nothing is written there: another type is another code, compiled while a request waits.
    results = tokens * splits * q_heads if splits > 1 else 1
    partial = torch.empty(results * values, dtype=torch.float32, device=q.device)
    lse = torch.empty(results, dtype=torch.float32, device=q.device)
    extend_kernel[(blocks, kv_heads, batch * splits)](
        q, new_k, new_v, stored.k, stored.v, table, rows, query_start, prefix_lens, out, partial, lse,
        q if sinks is None else sinks, *one_element(q, k_scale, v_scale), scale, logit_cap, window, splits,
        q.stride(0), q.stride(1), new_k.stride(0), new_k.stride(1), new_v.stride(0), new_v.stride(1),
        stored.k.stride(0), stored.k.stride(1), stored.v.stride(0), stored.v.stride(1), table.stride(0),
        out.stride(0), out.stride(1),
        GROUP=group, D=dim, DV=values, MAIN=main, REST=rest,
        VALUES=main if latent else triton.next_power_of_2(values), LATENT=latent,
        NEW=k_new is not None, CAUSAL=causal, WINDOW=window >= 0,
        FORMAT=stored.name, IN_HARDWARE=stored.in_hardware, SCALED=k_scale is not None or v_scale is not None,
        CAPPED=logit_cap > 0, SINKS=sinks is not None,
        BLOCK_M=shape.block_m, BLOCK_N=shape.block_n, **shape.options(),
    )  # fmt: skip
    if splits > 1:
        merge_parts(partial, lse, out, sinks=sinks, splits=splits)
    return out
