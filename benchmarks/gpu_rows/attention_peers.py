"""The peers of the rows of attention, over the same paged cache; each raises where it is not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpu_rows import filled

__all__ = [
    "PAGE",
    "PagedCache",
    "fa3_decode",
    "flash_attn_decode",
    "flash_attn_prefill",
    "flashinfer_decode",
    "flashinfer_mla",
    "flashinfer_prefill",
    "sdpa_decode",
    "sdpa_prefill",
    "sglang_decode",
    "sglang_prefill",
    "with_cudnn",
]

PAGE = 64
_SPLITS = 8
"""Of a request's tokens, in SGLang's decode: what it takes unless told otherwise (`triton_attention_num_kv_splits`)."""


class PagedCache:
    """A cache of `batch` requests of `context` tokens, pages in no order."""

    def __init__(
        self, device: torch.device, batch: int, context: int, heads: int, dim: int, dtype: torch.dtype
    ) -> None:
        pages = batch * -(-context // PAGE)
        self.k = filled(((pages + 1) * PAGE, heads, dim), dtype, device)
        self.pages = torch.randperm(pages, device=device).int() + 1
        self.pages = self.pages.view(batch, -1)
        slots = self.pages[:, :, None] * PAGE + torch.arange(PAGE, device=device, dtype=torch.int32)
        self.table = slots.view(batch, -1)
        self.rows = torch.arange(batch, device=device)
        self.lengths = torch.full((batch,), context, dtype=torch.int64, device=device)


def flashinfer_decode(
    q: torch.Tensor, cache: PagedCache, v: torch.Tensor, dtype: torch.dtype, context: int
) -> Any:
    import flashinfer

    batch, q_heads, dim = q.shape
    heads = cache.k.shape[1]
    workspace = torch.empty(1 << 28, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    per = context // PAGE
    start = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * per
    last = torch.full((batch,), PAGE, dtype=torch.int32, device=q.device)
    wrapper.plan(
        start,
        cache.pages.reshape(-1),
        last,
        q_heads,
        heads,
        dim,
        PAGE,
        q_data_type=q.dtype,
        kv_data_type=dtype,
    )
    paged = tuple(x.view(-1, PAGE, heads, dim) for x in (cache.k, v))
    return lambda: wrapper.run(q, paged)


def flash_attn_decode(q: torch.Tensor, cache: PagedCache, v: torch.Tensor, context: int) -> Any:
    from flash_attn import flash_attn_with_kvcache

    # It wants pages of 256 tokens; four of ours in a row count as one, which changes what is read but not how much.
    k4, v4 = (x[PAGE:].view(-1, 4 * PAGE, *x.shape[1:]) for x in (cache.k, v))
    blocks = torch.arange(k4.shape[0], dtype=torch.int32, device=q.device).view(q.shape[0], -1)
    lengths = cache.lengths.int()
    return lambda: flash_attn_with_kvcache(
        q[:, None], k4, v4, cache_seqlens=lengths, block_table=blocks, causal=True
    )


def fa3_decode(q: torch.Tensor, cache: PagedCache, v: torch.Tensor, dtype: torch.dtype) -> Any:
    """FlashAttention 3 as SGLang's backend of that name has it; over 8-bit floats the query is of 8 bits too."""
    from sgl_kernel.flash_attn import flash_attn_with_kvcache

    paged = [x.view(-1, PAGE, *x.shape[1:]) for x in (cache.k, v)]
    lengths, query = cache.lengths.int(), q[:, None].to(dtype)
    one = torch.ones(q.shape[0], cache.k.shape[1], device=q.device) if dtype.itemsize == 1 else None
    attend = lambda: flash_attn_with_kvcache(  # noqa: E731
        query,
        *paged,
        page_table=cache.pages,
        cache_seqlens=lengths,
        causal=True,
        k_descale=one,
        v_descale=one,
    )
    attend()  # a kernel that is missing is found here, not while the row is timed
    return attend


def sglang_decode(q: torch.Tensor, cache: PagedCache, v: torch.Tensor, context: int, scale: float) -> Any:
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


def sdpa_decode(q: torch.Tensor, batch: int, context: int, heads: int, dim: int) -> Any:
    k, v = (filled((batch, heads, context, dim), q.dtype, q.device) for _ in range(2))
    query = q[:, :, None]
    attend: Callable[..., torch.Tensor] = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(query, k, v, enable_gqa=True)


def flashinfer_mla(q: torch.Tensor, cache: PagedCache, context: int) -> Any:
    import flashinfer

    batch, heads, _ = q.shape
    workspace = torch.empty(1 << 28, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(workspace)
    starts = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    wrapper.plan(
        starts, starts * (context // PAGE), cache.pages.reshape(-1), cache.lengths.int(), heads, 512, 64, PAGE,
        False, 192**-0.5, q.dtype, q.dtype,
    )  # fmt: skip
    latent = cache.k.view(-1, PAGE, 576)
    parts = q[..., :512].contiguous(), q[..., 512:].contiguous()
    return lambda: wrapper.run(*parts, latent[..., :512], latent[..., 512:])


def with_cudnn(attend: Callable[[], Any]) -> Callable[[], Any]:
    """The same call by cuDNN's kernels alone, which are the fast ones of torch on Hopper."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return attend()

    return run


def sdpa_prefill(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: int, new: int) -> Any:
    parts = [x.view(batch, new, *x.shape[1:]).transpose(1, 2) for x in (q, k, v)]
    attend: Callable[..., torch.Tensor] = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(*parts, is_causal=True, enable_gqa=True)


def flash_attn_prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: torch.Tensor, new: int
) -> Any:
    from flash_attn import flash_attn_varlen_func

    return lambda: flash_attn_varlen_func(q, k, v, start, start, new, new, causal=True)


def sglang_prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cache: PagedCache, v_cache: torch.Tensor, start: torch.Tensor,
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


def flashinfer_prefill(
    q: torch.Tensor, cache: PagedCache, v_cache: torch.Tensor, start: torch.Tensor, prefix: int
) -> Any:
    """Its paged prefill reads the new tokens' keys from the cache, so the cache it is given is longer by them."""
    import flashinfer

    batch, heads, dim = start.shape[0] - 1, cache.k.shape[1], q.shape[2]
    new = q.shape[0] // batch
    whole = PagedCache(q.device, batch, prefix + new, heads, dim, q.dtype)
    values = filled(tuple(whole.k.shape), q.dtype, q.device)
    workspace = torch.empty(1 << 28, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
    per = whole.pages.shape[1]
    pages = torch.arange(batch + 1, dtype=torch.int32, device=q.device) * per
    last = torch.full((batch,), (prefix + new - 1) % PAGE + 1, dtype=torch.int32, device=q.device)
    wrapper.plan(
        start,
        pages,
        whole.pages.reshape(-1),
        last,
        q.shape[1],
        heads,
        dim,
        PAGE,
        causal=True,
        q_data_type=q.dtype,
    )
    paged = tuple(x.view(-1, PAGE, heads, dim) for x in (whole.k, values))
    return lambda: wrapper.run(q, paged)
