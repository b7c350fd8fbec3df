"""Decode and prefill attention against FlashInfer, FlashAttention, SGLang's Triton kernel and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from gpu_rows import Built, Row, filled
from gpu_rows.package import architectures, kernel, native_fp8

OURS = "sglang_platform"
SLOTS = "sglang_platform, single slots"
_PAGE = 64
_SPLITS = 8
"""Of a request's tokens, in SGLang's decode: what it takes unless told otherwise (`triton_attention_num_kv_splits`)."""
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


class _Paged:
    """A cache of `batch` requests of `context` tokens, pages in no order."""

    def __init__(
        self, device: torch.device, batch: int, context: int, heads: int, dim: int, dtype: torch.dtype
    ) -> None:
        pages = batch * -(-context // _PAGE)
        self.k = filled(((pages + 1) * _PAGE, heads, dim), dtype, device)
        self.pages = torch.randperm(pages, device=device).int() + 1
        self.pages = self.pages.view(batch, -1)
        slots = self.pages[:, :, None] * _PAGE + torch.arange(_PAGE, device=device, dtype=torch.int32)
        self.table = slots.view(batch, -1)
        self.rows = torch.arange(batch, device=device)
        self.lengths = torch.full((batch,), context, dtype=torch.int64, device=device)


def _gqa_decode(device: torch.device, batch: int, context: int, eight_bit: bool) -> Built:
    q_heads, heads, dim = 32, 8, 128
    dtype = native_fp8() if eight_bit else _BF16
    cache = _Paged(device, batch, context, heads, dim, dtype)
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
    built = Built({OURS: partial(ours, _PAGE)}, moved, 4 * batch * q_heads * context * dim)
    built.add(SLOTS, lambda: _single_slots(device, ours))
    built.add("flashinfer", lambda: _flashinfer_decode(q, cache, v, dtype, context))
    built.add("sglang triton", lambda: _sglang_decode(q, cache, v, context, dim**-0.5))
    if not eight_bit:
        built.add("flash_attn", lambda: _flash_attn_decode(q, cache, v, context))
        built.add("torch sdpa, contiguous", lambda: _sdpa_decode(q, batch, context, heads, dim))
        built.add("torch cudnn, contiguous", lambda: _with_cudnn(_sdpa_decode(q, batch, context, heads, dim)))
    return built


def _single_slots(device: torch.device, ours: Callable[[int], None]) -> Callable[[], None]:
    """Our decode by single slots, where it reads whole pages by itself."""
    if getattr(architectures().of(device), "pages", None) is None:
        raise LookupError("this device reads no whole pages, so ours is by single slots")
    return partial(ours, 1)


def _flashinfer_decode(
    q: torch.Tensor, cache: _Paged, v: torch.Tensor, dtype: torch.dtype, context: int
) -> Any:
    import flashinfer

    batch, q_heads, dim = q.shape
    heads = cache.k.shape[1]
    workspace = torch.empty(1 << 28, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    per = context // _PAGE
    start = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * per
    last = torch.full((batch,), _PAGE, dtype=torch.int32, device=q.device)
    wrapper.plan(
        start,
        cache.pages.reshape(-1),
        last,
        q_heads,
        heads,
        dim,
        _PAGE,
        q_data_type=q.dtype,
        kv_data_type=dtype,
    )
    paged = tuple(x.view(-1, _PAGE, heads, dim) for x in (cache.k, v))
    return lambda: wrapper.run(q, paged)


def _flash_attn_decode(q: torch.Tensor, cache: _Paged, v: torch.Tensor, context: int) -> Any:
    from flash_attn import flash_attn_with_kvcache

    # It wants pages of 256 tokens; four of ours in a row count as one, which changes what is read but not how much.
    k4, v4 = (x[_PAGE:].view(-1, 4 * _PAGE, *x.shape[1:]) for x in (cache.k, v))
    blocks = torch.arange(k4.shape[0], dtype=torch.int32, device=q.device).view(q.shape[0], -1)
    lengths = cache.lengths.int()
    return lambda: flash_attn_with_kvcache(
        q[:, None], k4, v4, cache_seqlens=lengths, block_table=blocks, causal=True
    )


def _sglang_decode(q: torch.Tensor, cache: _Paged, v: torch.Tensor, context: int, scale: float) -> Any:
    try:
        from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd
    except ModuleNotFoundError:  # SGLang of years before
        from sglang.srt.layers.attention.triton_ops.decode_attention import decode_attention_fwd

    batch, q_heads = q.shape[:2]
    out = q.new_empty(batch, q_heads, v.shape[-1])
    splits = torch.full((batch,), _SPLITS, dtype=torch.int32, device=q.device)
    partial = torch.empty(batch, q_heads, _SPLITS, v.shape[-1], dtype=torch.float32, device=q.device)
    lse = torch.empty(batch, q_heads, _SPLITS, dtype=torch.float32, device=q.device)
    start = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * context
    slots = cache.table.reshape(-1)
    return lambda: decode_attention_fwd(
        q, cache.k, v, out, start, slots, partial, lse, splits, _SPLITS, scale, 1.0, 1.0
    )


def _sdpa_decode(q: torch.Tensor, batch: int, context: int, heads: int, dim: int) -> Any:
    k, v = (filled((batch, heads, context, dim), q.dtype, q.device) for _ in range(2))
    query = q[:, :, None]
    attend: Callable[..., torch.Tensor] = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(query, k, v, enable_gqa=True)


def _mla_decode(device: torch.device, batch: int, context: int, eight_bit: bool, q_heads: int = 16) -> Built:
    dim, values = 576, 512
    dtype = native_fp8() if eight_bit else _BF16
    cache = _Paged(device, batch, context, 1, dim, dtype)
    q = filled((batch, q_heads, dim), _BF16, device)
    out = torch.empty(batch, q_heads, values, dtype=_BF16, device=device)
    scale = torch.ones(1, device=device) if eight_bit else None

    def ours(page_size: int) -> None:
        kernel("decode:paged_decode")(
            q, cache.k, cache.k[..., :values], cache.table, cache.rows, cache.lengths, out,
            scale=192**-0.5, k_scale=scale, v_scale=scale, page_size=page_size, max_len=context,
        )  # fmt: skip

    moved = batch * context * dim * dtype.itemsize + q.nbytes + out.nbytes
    built = Built({OURS: partial(ours, _PAGE)}, moved, 2 * batch * q_heads * context * (dim + values))
    built.add(SLOTS, lambda: _single_slots(device, ours))
    built.add("sglang triton", lambda: _sglang_decode(q, cache, cache.k[..., :values], context, 192**-0.5))
    if not eight_bit:
        built.add("flashinfer", lambda: _flashinfer_mla(q, cache, context))
    return built


def _flashinfer_mla(q: torch.Tensor, cache: _Paged, context: int) -> Any:
    import flashinfer

    batch, heads, _ = q.shape
    workspace = torch.empty(1 << 28, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(workspace)
    starts = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    wrapper.plan(
        starts, starts * (context // _PAGE), cache.pages.reshape(-1), cache.lengths.int(), heads, 512, 64, _PAGE,
        False, 192**-0.5, q.dtype, q.dtype,
    )  # fmt: skip
    latent = cache.k.view(-1, _PAGE, 576)
    parts = q[..., :512].contiguous(), q[..., 512:].contiguous()
    return lambda: wrapper.run(*parts, latent[..., :512], latent[..., 512:])


def _prefill(device: torch.device, batch: int, new: int, prefix: int, eight_bit: bool) -> Built:
    q_heads, heads, dim = 32, 8, 128
    kept = native_fp8() if eight_bit else _BF16
    cache = _Paged(device, batch, max(prefix, _PAGE), heads, dim, kept)
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
        built.add("torch sdpa", lambda: _sdpa_prefill(q, k, v, batch, new))
        built.add("torch cudnn", lambda: _with_cudnn(_sdpa_prefill(q, k, v, batch, new)))
        built.add("flash_attn", lambda: _flash_attn_prefill(q, k, v, start, new))
    built.add("sglang triton", lambda: _sglang_prefill(q, k, v, cache, v_cache, start, new, prefix))
    if not eight_bit:
        built.add("flashinfer", lambda: _flashinfer_prefill(q, cache, v_cache, start, prefix))
    return built


def _with_cudnn(attend: Callable[[], Any]) -> Callable[[], Any]:
    """The same call by cuDNN's kernels alone, which are the fast ones of torch on Hopper."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return attend()

    return run


def _sdpa_prefill(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: int, new: int) -> Any:
    parts = [x.view(batch, new, *x.shape[1:]).transpose(1, 2) for x in (q, k, v)]
    attend: Callable[..., torch.Tensor] = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(*parts, is_causal=True, enable_gqa=True)


def _flash_attn_prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: torch.Tensor, new: int
) -> Any:
    from flash_attn import flash_attn_varlen_func

    return lambda: flash_attn_varlen_func(q, k, v, start, start, new, new, causal=True)


def _sglang_prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cache: _Paged, v_cache: torch.Tensor, start: torch.Tensor,
    new: int, prefix: int,
) -> Any:  # fmt: skip
    from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

    out = torch.empty_like(q)
    cached = torch.arange(start.shape[0], dtype=torch.int32, device=q.device) * prefix
    slots = cache.table[:, :prefix].reshape(-1)
    return lambda: extend_attention_fwd(
        q,
        k,
        v,
        out,
        cache.k,
        v_cache,
        start,
        cached,
        slots,
        None,
        True,
        None,
        new,
        1.0,
        1.0,
        q.shape[-1] ** -0.5,
    )


def _flashinfer_prefill(
    q: torch.Tensor, cache: _Paged, v_cache: torch.Tensor, start: torch.Tensor, prefix: int
) -> Any:
    """Its paged prefill reads the new tokens' keys from the cache, so the cache it is given is longer by them."""
    import flashinfer

    batch, heads, dim = start.shape[0] - 1, cache.k.shape[1], q.shape[2]
    new = q.shape[0] // batch
    whole = _Paged(q.device, batch, prefix + new, heads, dim, q.dtype)
    values = filled(tuple(whole.k.shape), q.dtype, q.device)
    workspace = torch.empty(1 << 28, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
    per = whole.pages.shape[1]
    pages = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * per
    last = torch.full((batch,), (prefix + new - 1) % _PAGE + 1, dtype=torch.int32, device=q.device)
    wrapper.plan(
        start,
        pages,
        whole.pages.reshape(-1),
        last,
        q.shape[1],
        heads,
        dim,
        _PAGE,
        causal=True,
        q_data_type=q.dtype,
    )
    paged = tuple(x.view(-1, _PAGE, heads, dim) for x in (whole.k, values))
    return lambda: wrapper.run(q, paged)
