"""Rows of `gpu.py`: KV store and move, fused ops, page allocation, graph replay, each against what it must be held to.

A store or an op moves at least `bytes`; the time of a device copy that moves as many is the floor, and the aim is 90 %
of its bandwidth. Peers are timed in the same run. Nothing here runs without a GPU but the building of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

__all__ = ["Row", "rows"]

Run = Callable[[], Any]
_BF16 = torch.bfloat16


@dataclass
class Row:
    """`run` and each peer take no argument and queue their work on the current stream.

    bytes: the least that must move through device memory. launches: kernels a run queues, where the launch floor is
    what counts. host_clock: time with the host's clock around a synchronised run, for work that is the host's.
    """

    name: str
    group: str
    run: Run
    bytes: int = 0
    peers: dict[str, Run] = field(default_factory=dict)
    host_clock: bool = False
    note: str = ""


def rows(device: torch.device, divide: int = 1) -> Iterator[Row]:
    """All rows, built one at a time; `divide` makes the large sizes smaller, to try the rows out."""
    yield from _stores(device, divide)
    yield from _moves(device, divide)
    yield from _ops(device, divide)
    yield from _allocation(device)
    if device.type == "cuda":
        yield from _replay(device)


def _fp8(device: torch.device) -> torch.dtype:
    from sglang_platform.core.torch_cuda.kernels.target import target_of

    fnuz = target_of(device).name == "gfx942"
    return torch.float8_e4m3fnuz if fnuz else torch.float8_e4m3fn


def _stores(device: torch.device, divide: int) -> Iterator[Row]:
    for dtype in (_BF16, _fp8(device)):
        for n in (64, 8192 // divide, 65536 // divide):
            yield _store(device, n, (1 << 18) // divide, dtype)


def _store(device: torch.device, n: int, slots: int, dtype: torch.dtype) -> Row:
    from sglang_platform.core.torch_cuda.kernels.kv_store import store_pair

    heads, width = 8, 128
    kept = torch.uint8 if dtype.itemsize == 1 else dtype
    k_out, v_out = (torch.zeros((slots, heads, width), dtype=kept, device=device) for _ in range(2))
    k, v = (torch.randn((n, heads, width), device=device).to(_BF16) for _ in range(2))
    scale = None if dtype == _BF16 else torch.full((1,), 0.5, device=device)
    loc = torch.randperm(slots, device=device)[:n]

    def with_torch() -> None:
        for buffer, x in ((k_out, k), (v_out, v)):
            buffer[loc] = x if scale is None else (x / scale).to(dtype).view(torch.uint8)

    return Row(
        f"KV store, {n} tokens of 8 x 128, {dtype}",
        "store",
        lambda: store_pair(k, v, k_out, v_out, loc, scale, scale, dtype=dtype),
        2 * n * heads * width * (_BF16.itemsize + dtype.itemsize),
        {"torch": with_torch},
    )


def _moves(device: torch.device, divide: int) -> Iterator[Row]:
    from sglang_platform.core.torch_cuda.kernels.kv_move import BufferTable, Rows

    slots, layers, width = max((1 << 15) // divide, 1024), max(64 // divide, 2), 1024
    buffers = [torch.zeros((slots, width), dtype=_BF16, device=device) for _ in range(layers)]
    table = BufferTable([Rows(buffer) for buffer in buffers])
    for n in (16, 128, 512):
        places = torch.randperm(slots, device=device)
        target, source = places[:n], places[n : 2 * n]

        def move(target: torch.Tensor = target, source: torch.Tensor = source) -> None:
            table.move(target, source)

        def with_torch(target: torch.Tensor = target, source: torch.Tensor = source) -> None:
            for buffer in buffers:
                buffer[target] = buffer[source]

        moved = 2 * n * layers * width * _BF16.itemsize
        yield Row(f"move of {n} rows in {layers} buffers", "move", move, moved, {"torch": with_torch})


def _ops(device: torch.device, divide: int) -> Iterator[Row]:
    for n in (64, 8192 // divide):
        yield from _norms(device, n)
        yield from _elementwise(device, n)


def _norms(device: torch.device, n: int) -> Iterator[Row]:
    from sglang_platform.core.ops import reference
    from sglang_platform.core.torch_cuda.kernels import norm, quantise

    x, residual = (torch.randn((n, 4096), device=device).to(_BF16) for _ in range(2))
    weight = torch.ones(4096, dtype=_BF16, device=device)
    yield Row(
        f"rms_norm, {n} x 4096",
        "ops",
        lambda: norm.rms_norm(x, weight, 1e-6),
        2 * x.nbytes,
        {"torch": lambda: torch.nn.functional.rms_norm(x, (4096,), weight, 1e-6)},
    )
    yield Row(
        f"fused_add_rms_norm, {n} x 4096",
        "ops",
        lambda: norm.fused_add_rms_norm(x, residual, weight, 1e-6),
        4 * x.nbytes,
        {"torch": lambda: reference.fused_add_rms_norm(x, residual, weight, 1e-6)},
    )
    yield Row(
        f"fp8 per token, {n} x 4096",
        "ops",
        lambda: quantise.quantise_per_token(x, _fp8(device)),
        x.nbytes * 3 // 2,
        {"torch": lambda: reference.quantise_per_token(x, _fp8(device))},
    )


def _elementwise(device: torch.device, n: int) -> Iterator[Row]:
    from sglang_platform.core.ops import reference
    from sglang_platform.core.torch_cuda.kernels import activation, rotary

    wide = torch.randn((n, 2 * 14336), device=device).to(_BF16)
    yield Row(
        f"silu_and_mul, {n} x 14336",
        "ops",
        lambda: activation.silu_and_mul(wide),
        wide.nbytes * 3 // 2,
        {"torch": lambda: reference.silu_and_mul(wide)},
    )
    query, key = (torch.randn((n, size), device=device).to(_BF16) for size in (4096, 1024))
    cache, positions = torch.rand((8192, 128), device=device), torch.arange(n, device=device) % 8192
    for neox in (True, False):
        rotate, with_torch = (
            partial(function, positions, query, key, 128, cache, neox=neox)
            for function in (rotary.rotary_embedding, reference.rotary_embedding)
        )
        name = f"rotary {'neox' if neox else 'gptj'}, {n} x (32 + 8) x 128"
        yield Row(name, "ops", rotate, 2 * (query.nbytes + key.nbytes), {"torch": with_torch})


def _allocation(device: torch.device) -> Iterator[Row]:
    """Whole calls, host work included: the scheduler waits for them."""
    from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
    from sglang_platform.core.torch_cuda.allocator import TritonPagedAllocator

    def history(cls: Any, batch: int, extend: int) -> Run:
        allocator = cls(1 << 20, 16, _BF16, device, None, False)
        zero, seq = torch.zeros(batch, dtype=torch.int64), torch.full((batch,), extend, dtype=torch.int64)
        on_device = [t.to(device) for t in (zero, seq, zero - 1)]
        saved = allocator.backup_state()

        def run() -> None:
            slots = allocator.alloc_extend(
                on_device[0], zero, on_device[1], seq, on_device[2], batch * extend
            )
            last = slots.view(batch, extend)[:, -1]
            for step in range(1, 9):
                last = allocator.alloc_decode(on_device[1] + step, seq + step, last)
            allocator.restore_state(saved)

        return run

    for batch in (1, 64, 256):
        yield Row(
            f"extend of {batch} requests by 1000 tokens, then 8 decode steps, 1M slots",
            "allocator",
            history(TritonPagedAllocator, batch, 1000),
            peers={"core's torch": history(PagedTokenToKVPoolAllocator, batch, 1000)},
            host_clock=True,
        )


class _Decoder(torch.nn.Module):
    """Many small kernels and no attention: what a graph saves is the host's work per launch."""

    def __init__(self, layers: int, width: int, device: torch.device) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(1000, width, device=device, dtype=_BF16)
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width, width, device=device, dtype=_BF16) for _ in range(layers)
        )

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, batch: Any) -> torch.Tensor:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = x + torch.nn.functional.silu(layer(x))
        return x


def _replay(device: torch.device) -> Iterator[Row]:
    """A step through the runner against the bare replay of the same graph; the difference is the runner's overhead,
    which is to stay under 20 microseconds, and eager execution against both."""
    from sglang_platform.core.attention.batch import ForwardBatch, ForwardMode
    from sglang_platform.core.torch_cuda.graph_runner import TorchCudaGraphRunner

    backend = SimpleNamespace(
        init_cuda_graph_state=lambda *_: None,
        get_cuda_graph_seq_len_fill_value=lambda: 1,
        init_forward_metadata_out_graph=lambda *_, **__: None,
        init_forward_metadata_in_graph=lambda *_: None,
    )
    model = _Decoder(32, 1024, device)
    with torch.no_grad():
        runner = TorchCudaGraphRunner(
            SimpleNamespace(model=model, attn_backend=backend, device=device, graph_batch_sizes=[1, 8, 32])
        )
    for n in (1, 7, 32):
        integers = [torch.ones(n, dtype=torch.int64, device=device) for _ in range(5)]
        batch = ForwardBatch(ForwardMode.DECODE, n, integers[0], integers[1], integers[2],
                             positions=integers[3], input_ids=integers[4])  # fmt: skip
        bucket = min(size for size in runner.capture_bs if size >= n)

        def eager(batch: Any = batch) -> None:
            with torch.no_grad():
                model(batch.input_ids, batch.positions, batch)

        yield Row(
            f"decode step through the graph runner, batch {n} in bucket {bucket}",
            "graph",
            lambda batch=batch: runner.execute(batch),  # type: ignore[misc]
            peers={"bare replay": runner.captured[bucket].graph.replay, "eager": eager},
            host_clock=True,
        )
