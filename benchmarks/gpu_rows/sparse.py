"""Sparse MLA (DSA): indexer logits, selection, attention over the selected tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gpu_rows import Built, Row, filled
from gpu_rows.package import architectures, kernel, native_fp8
from sglang_platform.core.portable.triton.top_slots import top_slots

OURS = "sglang_platform"
_CASES = ((32, 32768), (1, 32768), (1, 131072), (8, 131072))
_TOPK = 2048


def rows() -> Iterator[Row]:
    """DeepSeek-V3.2's sizes: 64 index heads of 128, 2048 tokens selected, 128 heads over packed rows."""
    for batch, context in _CASES:
        case = {"batch": batch, "context": context}
        yield Row("index logits", case, "memory", batch * context * 140,
                  lambda device, b=batch, c=context: _index(device, b, c), ("index_logits",))  # type: ignore[misc]  # fmt: skip
        yield Row("select 2048", case, "memory", batch * context * 16,
                  lambda device, b=batch, c=context: _select(device, b, c), ("top_slots",))  # type: ignore[misc]  # fmt: skip
        yield Row("sparse decode packed", case, "memory", batch * context * 656,
                  lambda device, b=batch, c=context: _attend(device, b, c), ("sparse_decode",))  # type: ignore[misc]  # fmt: skip


def _table(device: torch.device, batch: int, context: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    table = torch.randperm(batch * context, device=device).int().view(batch, context) + 64
    return table, torch.arange(batch, device=device), torch.full((batch,), context, device=device)


def _index(device: torch.device, batch: int, context: int) -> Built:
    table, request, lengths = _table(device, batch, context)
    buffer = filled((batch * context // 64 + 2, 64 * 132), torch.uint8, device)
    q, weights = filled((batch, 64, 128), torch.bfloat16, device), filled((batch, 64), torch.float32, device)

    def ours() -> None:
        kernel("hardware:index_logits")(
            q, weights, buffer, table, request, lengths, page_size=64, width=context, key_dtype=native_fp8()
        )

    return Built({OURS: ours}, batch * context * (132 + 4 + 4), 2 * batch * context * 64 * 128)


def _select(device: torch.device, batch: int, context: int) -> Built:
    table, request, lengths = _table(device, batch, context)
    logits = filled((batch, context), torch.float32, device)
    launch = architectures().shapes(device).select

    def ours() -> None:
        top_slots(logits, table, request, lengths, topk=_TOPK, launch=launch)

    built = Built({OURS: ours}, batch * context * 4)
    built.add("torch.topk", lambda: lambda: logits.topk(_TOPK, dim=1, sorted=False))
    return built


def _attend(device: torch.device, batch: int, context: int) -> Built:
    cache = filled((batch * context + 64, 1, 656), torch.uint8, device)
    table = _table(device, batch, context)[0][:, :_TOPK].contiguous()
    rows = torch.arange(batch, device=device)
    counts = torch.full((batch,), _TOPK, device=device)
    q = filled((batch, 128, 576), torch.bfloat16, device)
    out = torch.empty(batch, 128, 512, dtype=torch.bfloat16, device=device)

    def ours() -> None:
        kernel("decode:paged_decode")(
            q,
            cache,
            cache[..., :512],
            table,
            rows,
            counts,
            out,
            scale=192**-0.5,
            packed=native_fp8(),
            max_len=_TOPK,
        )

    return Built(
        {OURS: ours}, batch * _TOPK * 656 + q.nbytes + out.nbytes, 2 * batch * 128 * _TOPK * (576 + 512)
    )
