"""Decode and prefill attention against FlashInfer, FlashAttention, SGLang's Triton kernel and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from gpu_rows import Built, Row, filled
from gpu_rows.attention_peers import (
    PAGE,
    PagedCache,
    fa3_decode,
    flash_attn_decode,
    flash_attn_prefill,
    flashinfer_decode,
    flashinfer_mla,
    flashinfer_prefill,
    sdpa_decode,
    sdpa_prefill,
    sglang_decode,
    sglang_prefill,
    with_cudnn,
)
from gpu_rows.package import architectures, kernel, native_fp8

OURS = "sglang_platform"
SLOTS = "sglang_platform, single slots"
_BF16 = torch.bfloat16
# (batch, context): one request up to long contexts, many up to where the cache fills a device.
_DECODES = (
    (32, 8192), (1, 1024), (1, 8192), (1, 32768), (1, 131072), (8, 8192), (8, 32768), (32, 1024), (32, 32768),
    (128, 1024), (128, 8192), (256, 1024), (256, 4096), (256, 8192),
)  # fmt: skip
_MANY = ((512, 1024), (1024, 1024))
_MANY_HEADS = ((32, 8192), (1, 8192), (128, 8192))
_PREFILLS = ((1, 4096, 0), (1, 1024, 0), (1, 16384, 0), (8, 1024, 0), (4, 2048, 8192), (1, 512, 32768))


def rows() -> Iterator[Row]:
    """Decode over GQA and MLA, plain and 8-bit caches; prefill with and without a cached prefix."""
    for batch, context in _DECODES:
        for eight_bit in (False, True):
            kv = "fp8" if eight_bit else "bf16"
            row_bytes = 8 * 128 * 2 * (1 if eight_bit else 2)
            yield Row(
                f"decode gqa {kv}",
                {"batch": batch, "context": context, "heads": "32/8", "dim": 128},
                "memory",
                2 * batch * context * row_bytes,
                lambda device, b=batch, c=context, e=eight_bit: _gqa_decode(device, b, c, e),  # type: ignore[misc]
                ("decode",),
            )
    for batch, context in _DECODES:
        for eight_bit in (False, True):
            yield Row(
                f"decode mla {'fp8' if eight_bit else 'bf16'}",
                {"batch": batch, "context": context, "heads": 16, "dim": "576/512"},
                "memory",
                batch * context * 576 * (1 if eight_bit else 2),
                lambda device, b=batch, c=context, e=eight_bit: _mla_decode(device, b, c, e),  # type: ignore[misc]
                ("decode",),
            )
    for batch, context in _MANY_HEADS:
        yield Row(
            "decode mla bf16, 128 heads",
            {"batch": batch, "context": context, "heads": 128, "dim": "576/512"},
            "memory",
            batch * context * 576 * 2,
            lambda device, b=batch, c=context: _mla_decode(device, b, c, False, 128),  # type: ignore[misc]
            ("decode",),
        )
    for batch, context in _MANY:
        yield Row(
            f"decode gqa bf16, {batch} requests",
            {"batch": batch, "context": context, "heads": "32/8", "dim": 128},
            "memory",
            4 * batch * context * 8 * 128,
            partial(_gqa_decode, batch=batch, context=context, eight_bit=False),
            ("decode",),
        )
    for batch, new, prefix, eight_bit in (*((*case, False) for case in _PREFILLS), (4, 2048, 8192, True)):
        yield Row(
            f"prefill gqa {'fp8' if eight_bit else 'bf16'}" + (" prefix" if prefix else ""),
            {"batch": batch, "new": new, "prefix": prefix, "heads": "32/8", "dim": 128},
            "compute",
            4 * batch * (new + prefix) * 8 * 128 * 2 * 2,
            partial(_prefill, batch=batch, new=new, prefix=prefix, eight_bit=eight_bit),
            ("extend",),
        )


def _gqa_decode(device: torch.device, batch: int, context: int, eight_bit: bool) -> Built:
    q_heads, heads, dim = 32, 8, 128
    dtype = native_fp8() if eight_bit else _BF16
    cache = PagedCache(device, batch, context, heads, dim, dtype)
    v = filled(tuple(cache.k.shape), dtype, device)
    q = filled((batch, q_heads, dim), _BF16, device)
    out = torch.empty_like(q)
    scale = torch.ones(1, device=device) if eight_bit else None

    def ours(page_size: int) -> None:
        kernel("decode:paged_decode")(
            q, cache.k, v, cache.table, cache.rows, cache.lengths, out,
            scale=dim**-0.5, k_scale=scale, v_scale=scale, page_size=page_size, max_len=context,
        )  # fmt: skip

    moved = 2 * batch * context * heads * dim * dtype.itemsize + 2 * q.nbytes
    built = Built({OURS: partial(ours, PAGE)}, moved, 4 * batch * q_heads * context * dim)
    built.add(SLOTS, lambda: _single_slots(device, ours))
    built.add("flashinfer", lambda: flashinfer_decode(q, cache, v, dtype, context))
    built.add("sglang triton", lambda: sglang_decode(q, cache, v, context, dim**-0.5))
    built.add("fa3", lambda: fa3_decode(q, cache, v, dtype))
    if not eight_bit:
        built.add("flash_attn", lambda: flash_attn_decode(q, cache, v, context))
        built.add("torch sdpa, contiguous", lambda: sdpa_decode(q, batch, context, heads, dim))
        built.add("torch cudnn, contiguous", lambda: with_cudnn(sdpa_decode(q, batch, context, heads, dim)))
    return built


def _single_slots(device: torch.device, ours: Callable[[int], None]) -> Callable[[], None]:
    """Our decode by single slots, where it reads whole pages by itself."""
    if getattr(architectures().of(device), "pages", None) is None:
        raise LookupError("this device reads no whole pages, so ours is by single slots")
    return partial(ours, 1)


def _mla_decode(device: torch.device, batch: int, context: int, eight_bit: bool, q_heads: int = 16) -> Built:
    dim, values = 576, 512
    dtype = native_fp8() if eight_bit else _BF16
    cache = PagedCache(device, batch, context, 1, dim, dtype)
    q = filled((batch, q_heads, dim), _BF16, device)
    out = torch.empty(batch, q_heads, values, dtype=_BF16, device=device)
    scale = torch.ones(1, device=device) if eight_bit else None

    def ours(page_size: int) -> None:
        kernel("decode:paged_decode")(
            q, cache.k, cache.k[..., :values], cache.table, cache.rows, cache.lengths, out,
            scale=192**-0.5, k_scale=scale, v_scale=scale, page_size=page_size, max_len=context,
        )  # fmt: skip

    moved = batch * context * dim * dtype.itemsize + q.nbytes + out.nbytes
    built = Built({OURS: partial(ours, PAGE)}, moved, 2 * batch * q_heads * context * (dim + values))
    built.add(SLOTS, lambda: _single_slots(device, ours))
    built.add("sglang triton", lambda: sglang_decode(q, cache, cache.k[..., :values], context, 192**-0.5))
    if not eight_bit:
        built.add("flashinfer", lambda: flashinfer_mla(q, cache, context))
    return built


def _prefill(device: torch.device, batch: int, new: int, prefix: int, eight_bit: bool) -> Built:
    q_heads, heads, dim = 32, 8, 128
    kept = native_fp8() if eight_bit else _BF16
    cache = PagedCache(device, batch, max(prefix, PAGE), heads, dim, kept)
    v_cache = filled(tuple(cache.k.shape), kept, device)
    k_scale = torch.ones(1, device=device) if eight_bit else None
    q, k, v = (filled((batch * new, n, dim), _BF16, device) for n in (q_heads, heads, heads))
    out = torch.empty_like(q)
    start = torch.arange(batch + 1, dtype=torch.int32, device=device) * new
    prefixes = torch.full((batch,), prefix, dtype=torch.int64, device=device)

    def ours() -> None:
        kernel("hardware:paged_extend")(
            q, k, v, cache.k, v_cache, cache.table, cache.rows, start, prefixes, out,
            max_new=new, scale=dim**-0.5, k_scale=k_scale, v_scale=k_scale,
        )  # fmt: skip

    pairs = batch * (new * prefix + new * (new + 1) // 2)
    moved = 2 * q.nbytes + k.nbytes + v.nbytes + 2 * batch * prefix * heads * dim * kept.itemsize
    built = Built({OURS: ours}, moved, 4 * q_heads * pairs * dim)
    if prefix == 0:
        built.add("torch sdpa", lambda: sdpa_prefill(q, k, v, batch, new))
        built.add("torch cudnn", lambda: with_cudnn(sdpa_prefill(q, k, v, batch, new)))
        built.add("flash_attn", lambda: flash_attn_prefill(q, k, v, start, new))
    built.add("sglang triton", lambda: sglang_prefill(q, k, v, cache, v_cache, start, new, prefix))
    if not eight_bit:
        built.add("flashinfer", lambda: flashinfer_prefill(q, cache, v_cache, start, prefix))
    return built
