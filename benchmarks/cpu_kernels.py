"""The example device's CPU kernels against torch, in one run on one machine.

    python benchmarks/cpu_kernels.py [--json PATH] [--only decode,extend,norm,moe] [--threads N]

The peer for attention is what SGLang's torch_native backend does: per request, gather the keys and values of all its
tokens into copies and call torch's scaled_dot_product_attention. Times are medians, each pair measured alternately.
Bandwidths count the bytes that must be read once, beside the machine's copy bandwidth (bytes read plus written).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from sglang_platform.example_oot import kernels

Run = Callable[[], Any]
Row = dict[str, Any]
PAGE = 16
SHAPES = {"32/8 heads, D 128": (32, 8, 128), "8/2 heads, D 64": (8, 2, 64)}
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def medians(ours: Run, peer: Run, seconds: float = 1.0) -> tuple[float, float]:
    """Median seconds of both, alternating so that both see the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in (ours, peer):
        run()
    stop = time.perf_counter() + seconds
    while len(times[0]) < 5 or (time.perf_counter() < stop and len(times[0]) < 300):
        for run, record in zip((ours, peer), times, strict=True):
            start = time.perf_counter()
            run()
            record.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def copy_bandwidth() -> float:
    """GB/s of a copy far larger than the caches, reads and writes counted."""
    source = torch.ones(64 * 2**20)
    target = torch.empty_like(source)
    seconds, _ = medians(lambda: target.copy_(source), lambda: None)
    return 2 * source.numel() * 4 / seconds / 1e9


class Cache:
    """A paged KV cache: each request's pages lie anywhere in the pool."""

    def __init__(self, batch: int, length: int, kv_heads: int, dim: int, dtype: torch.dtype) -> None:
        pages = -(-length // PAGE)
        order = torch.randperm(batch * pages) + 1
        slots = (order[:, None] * PAGE + torch.arange(PAGE)).view(batch, -1)
        size = ((batch * pages + 1) * PAGE, kv_heads, dim)
        self.k, self.v = (torch.randn(size).to(dtype) for _ in range(2))
        self.req_to_token = slots.int()
        self.rows = torch.arange(batch)
        self.lengths = torch.full((batch,), length)
        self.scaling = dim**-0.5

    def gathered(self, request: int, length: int) -> Iterator[torch.Tensor]:
        """Copies of a request's keys and values, [1, kv_heads, length, dim]."""
        slots = self.req_to_token[request, :length]
        return (buffer[slots].movedim(0, 1).unsqueeze(0) for buffer in (self.k, self.v))


def decode(batch: int, context: int, shape: str, type_name: str) -> Row:
    heads, kv_heads, dim = SHAPES[shape]
    cache = Cache(batch, context, kv_heads, dim, TYPES[type_name])
    q = torch.randn(batch, heads, dim).to(TYPES[type_name])
    out, peer_out = torch.empty_like(q), torch.empty_like(q)

    def ours() -> None:
        kernels.paged_decode(
            q, cache.k, cache.v, cache.req_to_token, cache.rows, cache.lengths, out, cache.scaling, 0.0, -1
        )

    def peer() -> None:
        for request in range(batch):
            k, v = cache.gathered(request, context)
            query = q[request, :, None][None]
            result = functional.scaled_dot_product_attention(
                query, k, v, enable_gqa=True, scale=cache.scaling
            )
            peer_out[request] = result[0, :, 0]

    seconds, peer_seconds = medians(ours, peer)
    torch.testing.assert_close(out, peer_out, rtol=2e-2, atol=2e-2)
    read = 2 * batch * context * kv_heads * dim * q.element_size()
    return {
        "what": f"decode {shape} {type_name} batch {batch} context {context}",
        "us": seconds * 1e6,
        "GB/s": read / seconds / 1e9,
        "peer_us": peer_seconds * 1e6,
    }


def extend(prefix: int, new: int, shape: str, type_name: str) -> Row:
    heads, kv_heads, dim = SHAPES[shape]
    cache = Cache(1, prefix + new, kv_heads, dim, TYPES[type_name])
    q = torch.randn(new, heads, dim).to(TYPES[type_name])
    out, peer_out = torch.empty_like(q), torch.empty_like(q)
    prefix_lens, new_lens = torch.tensor([prefix]), torch.tensor([new])

    def ours() -> None:
        kernels.paged_extend(
            q,
            cache.k,
            cache.v,
            cache.req_to_token,
            cache.rows,
            cache.lengths,
            prefix_lens,
            new_lens,
            out,
            cache.scaling,
        )

    def peer() -> None:
        k, v = cache.gathered(0, prefix + new)
        query = torch.zeros(1, heads, prefix + new, dim, dtype=q.dtype)
        query[0, :, prefix:] = q.movedim(0, 1)
        result = functional.scaled_dot_product_attention(
            query, k, v, enable_gqa=True, scale=cache.scaling, is_causal=True
        )
        peer_out.copy_(result[0, :, prefix:].movedim(1, 0))

    seconds, peer_seconds = medians(ours, peer)
    torch.testing.assert_close(out, peer_out, rtol=2e-2, atol=2e-2)
    operations = 4 * heads * dim * new * (prefix + (new + 1) / 2)
    return {
        "what": f"extend {shape} {type_name} {new} tokens after {prefix}",
        "us": seconds * 1e6,
        "GFLOP/s": operations / seconds / 1e9,
        "peer_us": peer_seconds * 1e6,
    }


def torch_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def norms(tokens: int, hidden: int, type_name: str) -> Iterator[Row]:
    """The operators around attention, against the same in torch operators as SGLang's plain path writes them."""
    dtype = TYPES[type_name]
    x, residual = torch.randn(tokens, hidden).to(dtype), torch.randn(tokens, hidden).to(dtype)
    weight = torch.rand(hidden)
    out, gate_up = torch.empty_like(x), torch.randn(tokens, 4 * hidden).to(dtype)
    gated = torch.empty(tokens, 2 * hidden, dtype=dtype)
    angles = torch.rand(tokens, 64)
    cache, positions = torch.cat([angles.cos(), angles.sin()], -1), torch.arange(tokens)
    q, k = torch.randn(tokens, hidden).to(dtype), torch.randn(tokens, hidden // 4).to(dtype)

    def peer_add_norm() -> None:
        total = x.float() + residual.float()
        total.to(dtype)
        torch_norm(total, weight, 1e-6).to(dtype)

    def peer_rotary() -> None:
        cosines, sines = cache.index_select(0, positions).unsqueeze(-2).to(dtype).chunk(2, dim=-1)
        for part in (q, k):
            a, b = part.view(tokens, -1, 128).chunk(2, dim=-1)
            torch.cat((a * cosines - b * sines, b * cosines + a * sines), dim=-1)

    def peer_silu() -> None:
        torch.mul(functional.silu(gate_up[:, : 2 * hidden]), gate_up[:, 2 * hidden :])

    pairs: dict[str, tuple[Run, Run]] = {
        "rms_norm": (lambda: kernels.rms_norm(x, weight, 1e-6, out), lambda: torch_norm(x, weight, 1e-6)),
        "fused_add_rms_norm": (lambda: kernels.fused_add_rms_norm(x, residual, weight, 1e-6), peer_add_norm),
        "rotary_embedding": (
            lambda: kernels.rotary_embedding(positions, q, k, 128, cache, True),
            peer_rotary,
        ),
        "silu_and_mul": (lambda: kernels.silu_and_mul(gate_up, gated), peer_silu),
    }
    for name, (ours, peer) in pairs.items():
        seconds, peer_seconds = medians(ours, peer, 0.3)
        yield {
            "what": f"{name} {type_name} {tokens} x {hidden}",
            "us": seconds * 1e6,
            "peer_us": peer_seconds * 1e6,
        }


def moe(tokens: int, type_name: str) -> Row:
    """128 experts, 8 chosen, hidden 2048, inter 768 (Qwen3-30B-A3B), against a loop over the chosen experts."""
    dtype, experts, top_k, hidden, inter = TYPES[type_name], 128, 8, 2048, 768
    x = torch.randn(tokens, hidden).to(dtype)
    w13 = (torch.randn(experts, 2 * inter, hidden, dtype=torch.bfloat16) * hidden**-0.5).to(dtype)
    w2 = (torch.randn(experts, hidden, inter, dtype=torch.bfloat16) * inter**-0.5).to(dtype)
    weights, ids = torch.rand(tokens, experts).topk(top_k)
    out = torch.empty_like(x)

    def ours() -> None:
        kernels.moe_experts(x, w13, w2, weights, ids, out)

    def peer() -> None:
        order = ids.view(-1).argsort()
        chosen = x[order // top_k]
        outputs, start = [], 0
        for expert, count in enumerate(ids.view(-1).bincount(minlength=experts).tolist()):
            if count:
                gate, up = functional.linear(chosen[start : start + count], w13[expert]).chunk(2, -1)
                outputs.append(functional.linear(functional.silu(gate) * up, w2[expert]))
                start += count
        pairs = torch.empty(tokens * top_k, hidden, dtype=dtype)
        pairs[order] = torch.cat(outputs)
        (pairs.view(tokens, top_k, hidden) * weights[..., None].to(dtype)).sum(1)

    seconds, peer_seconds = medians(ours, peer)
    read = len(ids.unique()) * 3 * hidden * inter * x.element_size()
    return {
        "what": f"moe_experts {type_name} {tokens} tokens",
        "us": seconds * 1e6,
        "GB/s": read / seconds / 1e9,
        "peer_us": peer_seconds * 1e6,
    }


def rows(only: set[str]) -> Iterator[Row]:
    for type_name in TYPES:
        for shape in SHAPES if "decode" in only else ():
            for context in (512, 4096):
                for batch in (1, 8, 32):
                    yield decode(batch, context, shape, type_name)
        for shape in SHAPES if "extend" in only else ():
            for prefix, new in ((0, 512), (0, 2048), (1536, 512)):
                yield extend(prefix, new, shape, type_name)
        for tokens in (1, 8, 512) if "norm" in only else ():
            yield from norms(tokens, 2048, type_name)
        for tokens in (1, 8, 32, 512) if "moe" in only else ():
            yield moe(tokens, type_name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--only", default="decode,extend,norm,moe")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    bandwidth = copy_bandwidth()
    print(f"kernels: {kernels.backend()}, {options.threads} threads, copy bandwidth {bandwidth:.1f} GB/s")
    print(f"{'':58} {'us':>9} {'peer us':>9} {'ratio':>6} {'GB/s':>6} {'of copy':>7} {'GFLOP/s':>7}")
    results = []
    with torch.inference_mode():
        for row in rows(set(options.only.split(","))):
            row["speedup"] = row["peer_us"] / row["us"]
            if "GB/s" in row:
                row["of_copy_bandwidth"] = row["GB/s"] / bandwidth
            results.append(row)
            text = f"{row['what']:58} {row['us']:9.1f} {row['peer_us']:9.1f} {row['speedup']:6.2f}"
            if "GB/s" in row:
                text += f" {row['GB/s']:6.1f} {row['of_copy_bandwidth']:7.2f}"
            if "GFLOP/s" in row:
                text += f" {'':6} {'':7} {row['GFLOP/s']:7.0f}"
            print(text, flush=True)
    if options.json:
        machine = {"processor": platform.processor() or platform.machine(), "torch": torch.__version__}
        report = {
            "machine": machine | {"python": sys.version.split()[0], "threads": options.threads},
            "kernels": kernels.backend(),
            "copy_gb_per_s": bandwidth,
            "results": results,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
