"""The launches of a served model, by kernel family: what is compiled for each target on a machine without one.

Shapes are those of Llama-3.1-8B (8 KV heads of 128) and of DeepSeek-V3 (rank 512, 64 rotated), at a decode batch and in
a prefill chunk. Tensors are on the CPU and nothing is executed, so their content does not matter.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from sglang_platform.core.portable.triton.activation import silu_and_mul
from sglang_platform.core.torch_cuda.kernels.dsa_store import store_index_keys, store_packed
from sglang_platform.core.torch_cuda.kernels.kv_move import Rows, move_rows
from sglang_platform.core.torch_cuda.kernels.kv_store import store_pair
from sglang_platform.core.portable.triton.norm import fused_add_rms_norm, rms_norm
from sglang_platform.core.portable.triton.page_slots import decode_slots, extend_slots
from sglang_platform.core.torch_cuda.kernels.quantise import quantise_per_token
from sglang_platform.core.portable.triton.rotary import rotary_embedding
from sglang_platform.core.portable.triton.architecture import target_of

__all__ = [
    "activation",
    "decode_step",
    "extend_step",
    "index_keys",
    "moved_rows",
    "normalisation",
    "packed_rows",
    "quantisation",
    "residual_normalisation",
    "rotation",
    "stored_rows",
]

Launches = dict[str, Callable[[], object]]
_BF16 = torch.bfloat16


def _fp8() -> torch.dtype:
    """The e4m3 type of the target."""
    return torch.float8_e4m3fnuz if target_of(torch.device("cpu")).name == "gfx942" else torch.float8_e4m3fn


def stored_rows() -> Launches:
    def store(
        n: int, heads: int, a: int, b: int, dtype: torch.dtype, scale: torch.Tensor | None = None
    ) -> None:
        kept = torch.uint8 if dtype.itemsize == 1 else dtype
        out = torch.zeros((4096, heads, a), dtype=kept), torch.zeros((4096, heads, b), dtype=kept)
        if heads == 1:
            rows = torch.zeros((4096, 1, a + b), dtype=kept)
            out = rows[..., :a], rows[..., a:]
        k, v = (torch.zeros((n, heads, width), dtype=_BF16) for width in (a, b))
        store_pair(k, v, out[0], out[1], torch.zeros(n, dtype=torch.int64), scale, scale, dtype=dtype)

    return {
        "8 heads of 128, decode": lambda: store(64, 8, 128, 128, _BF16),
        "8 heads of 128, prefill": lambda: store(8192, 8, 128, 128, _BF16),
        "8 heads of 128, prefill, fp8 with scales": lambda: store(8192, 8, 128, 128, _fp8(), torch.ones(1)),
        "latent 512 + 64, prefill": lambda: store(8192, 1, 512, 64, _BF16),
        "latent 512 + 64, prefill, fp8": lambda: store(8192, 1, 512, 64, _fp8()),
    }


def moved_rows() -> Launches:
    def move(n: int, *widths: int) -> None:
        buffers = [Rows(torch.zeros((1024, width), dtype=_BF16)) for width in widths]
        move_rows(buffers, torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64))

    return {
        "64 rows of 1024": lambda: move(64, 1024, 1024),
        "512 rows of 1024": lambda: move(512, 1024, 1024),
        "64 rows of 576": lambda: move(64, 576),
    }


def packed_rows() -> Launches:
    def store(n: int) -> None:
        nope, rope = torch.zeros((n, 1, 512), dtype=_BF16), torch.zeros((n, 1, 64), dtype=_BF16)
        out = torch.zeros((1024, 1, 656), dtype=torch.uint8)
        store_packed(nope, rope, out, torch.zeros(n, dtype=torch.int64), dtype=_fp8())

    return {"decode": lambda: store(64), "prefill": lambda: store(8192)}


def index_keys() -> Launches:
    def store(n: int) -> None:
        keys, scales = torch.zeros((n, 128), dtype=_fp8()), torch.zeros((n, 1))
        out = torch.zeros((64, 64 * 132), dtype=torch.uint8)
        store_index_keys(keys, scales, out, torch.zeros(n, dtype=torch.int64), page_size=64)

    return {"decode": lambda: store(64), "prefill": lambda: store(8192)}


def extend_step() -> Launches:
    def extend(batch: int, total: int) -> None:
        prefix, seq, last = (torch.zeros(batch, dtype=torch.int64) for _ in range(3))
        pages, out = torch.zeros(total // 16, dtype=torch.int64), torch.zeros(total, dtype=torch.int64)
        extend_slots(prefix, seq, last, pages, out, page_size=16)

    return {
        "16 requests, 8192 tokens": lambda: extend(16, 8192),
        "1 request, 64 tokens": lambda: extend(1, 64),
    }


def decode_step() -> Launches:
    def decode(batch: int) -> None:
        seq, last, pages, out = (torch.zeros(batch, dtype=torch.int64) for _ in range(4))
        decode_slots(seq, last, pages, out, page_size=16)

    return {
        "8 requests": lambda: decode(8),
        "256 requests": lambda: decode(256),
        "4096 requests": lambda: decode(4096),
    }


def normalisation() -> Launches:
    def norm(rows: int, width: int) -> None:
        rms_norm(torch.zeros((rows, width), dtype=_BF16), torch.zeros(width, dtype=_BF16), 1e-6)

    return {
        "4096, decode": lambda: norm(64, 4096),
        "7168, prefill": lambda: norm(8192, 7168),
        "heads of 128": lambda: norm(8192 * 8, 128),
    }


def residual_normalisation() -> Launches:
    def norm(rows: int, width: int) -> None:
        x, residual = (torch.zeros((rows, width), dtype=_BF16) for _ in range(2))
        fused_add_rms_norm(x, residual, torch.zeros(width, dtype=_BF16), 1e-6)

    return {"4096, decode": lambda: norm(64, 4096), "7168, prefill": lambda: norm(8192, 7168)}


def activation() -> Launches:
    def silu(rows: int, width: int) -> None:
        silu_and_mul(torch.zeros((rows, 2 * width), dtype=_BF16))

    return {"14336, decode": lambda: silu(64, 14336), "14336, prefill": lambda: silu(8192, 14336)}


def rotation() -> Launches:
    def rotate(tokens: int, heads: int, head_dim: int, rotated: int, neox: bool) -> None:
        query = torch.zeros((tokens, heads * head_dim), dtype=_BF16)
        key = torch.zeros((tokens, 8 * head_dim), dtype=_BF16)
        cache = torch.zeros((4096, rotated))
        rotary_embedding(torch.zeros(tokens, dtype=torch.int64), query, key, head_dim, cache, neox=neox)

    return {
        "neox, 32 heads of 128": lambda: rotate(64, 32, 128, 128, True),
        "gptj, 32 heads of 64": lambda: rotate(64, 32, 64, 64, False),
    }


def quantisation() -> Launches:
    def quantise(rows: int, width: int, group: int | None) -> None:
        quantise_per_token(torch.zeros((rows, width), dtype=_BF16), _fp8(), group_size=group)

    return {
        "4096 per token": lambda: quantise(64, 4096, None),
        "7168 per token, prefill": lambda: quantise(8192, 7168, None),
        "7168 in groups of 128": lambda: quantise(8192, 7168, 128),
    }
