"""KV store, alone or with rotary positions, and move against torch and the copy bandwidth; page allocation and graph
replay by the host's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from gpu_rows import Built, Row, filled
from gpu_rows.package import architectures, kernel, native_fp8, part
from sglang_platform.core.memory.paged import PagedTokenToKVPoolAllocator
from sglang_platform.core.portable.triton import kv_move, rotary
from sglang_platform.core.portable.triton.buffer_table import BufferTable, Rows

__all__ = ["rows"]

OURS = "sglang_platform"
_BF16 = torch.bfloat16
_HEADS, _DIM, _SLOTS = 8, 128, 1 << 18


def rows() -> Iterator[Row]:
    """Aims: 90 % of the copy bandwidth for store and move of many rows; under 20 microseconds added by the graph runner
    to a bare replay; an allocator not behind SGLang's own kernels."""
    for n in (65536, 8192, 64):
        for eight_bit in (False, True):
            name = f"KV store {'fp8 with scales' if eight_bit else 'bf16'}"
            case = {"tokens": n, "heads": _HEADS, "dim": _DIM}
            yield Row(
                name, case, "memory", 4 * _SLOTS * _HEADS * _DIM, partial(_store, n, eight_bit), ("kv_store",)
            )
    for n in (8192, 64):
        for eight_bit in (False, True):
            name = f"rotary and KV store {'fp8 with scales' if eight_bit else 'bf16'}"
            case = {"tokens": n, "heads": f"32+{_HEADS}", "dim": _DIM}
            checks = ("rotary_store", "rotary_embedding", "kv_store")
            yield Row(
                name,
                case,
                "memory",
                4 * _SLOTS * _HEADS * _DIM,
                partial(_rotate_and_store, n, eight_bit),
                checks,
            )
    for n in (512, 128, 16):
        case = {"rows": n, "buffers": 64}
        yield Row("KV move", case, "memory", 64 * 32768 * 2048, partial(_move, n), ("kv_move",))
    for batch in (64, 1, 256):
        case = {"requests": batch, "slots": "1M"}
        checks = ("extend_slots", "decode_slots")
        yield Row("page allocation", case, "host", 1 << 24, partial(_allocate, batch), checks)
        yield Row("page frees", case, "host", 1 << 24, partial(_free, batch))
    for n in (7, 1, 32):
        yield Row("graph step", {"batch": n, "layers": 32}, "host", 1 << 28, partial(_replay, n))


def _store(n: int, eight_bit: bool, device: torch.device) -> Built:
    dtype = native_fp8() if eight_bit else _BF16
    kept = torch.uint8 if eight_bit else dtype
    k_out, v_out = (filled((_SLOTS, _HEADS, _DIM), kept, device) for _ in range(2))
    k, v = (filled((n, _HEADS, _DIM), _BF16, device) for _ in range(2))
    scale = torch.full((1,), 0.5, device=device) if eight_bit else None
    loc = torch.randperm(_SLOTS, device=device)[:n]

    def with_torch() -> None:
        for buffer, x in ((k_out, k), (v_out, v)):
            buffer[loc] = x if scale is None else (x / scale).to(dtype).view(torch.uint8)

    moved = 2 * k.numel() * (_BF16.itemsize + dtype.itemsize)
    built = Built(
        {OURS: lambda: kernel("hardware:store_pair")(k, v, k_out, v_out, loc, scale, scale, dtype=dtype)},
        moved,
    )
    built.add("torch", lambda: with_torch)
    if not eight_bit:
        built.add("sglang", lambda: _sglang_store(k, v, k_out, v_out, loc))
    return built


def _rotate_and_store(n: int, eight_bit: bool, device: torch.device) -> Built:
    """One launch, beside ours one after the other: the same bytes in the cache, keys read twice."""
    dtype = native_fp8() if eight_bit else _BF16
    kept = torch.uint8 if eight_bit else dtype
    width = _HEADS * _DIM
    k_out, v_out = (filled((_SLOTS, _HEADS, _DIM), kept, device) for _ in range(2))
    k_rows, v_rows = (x.view(dtype).flatten(1) for x in (k_out, v_out))
    query = filled((n, 4 * width), _BF16, device)
    key, value = (filled((n, width), _BF16, device) for _ in range(2))
    cache, positions = filled((8192, _DIM), torch.float32, device), torch.arange(n, device=device) % 8192
    scale = torch.full((1,), 0.5, device=device) if eight_bit else None
    loc = torch.randperm(_SLOTS, device=device)[:n]
    launch = architectures().shapes(device).elementwise

    def fused() -> None:
        kernel("hardware:rotate_and_store")(
            positions, query, key, value, _DIM, cache, k_rows, v_rows, loc, scale, scale, neox=True
        )  # fmt: skip

    def apart() -> None:
        rotary.rotary_embedding(positions, query, key, _DIM, cache, neox=True, launch=launch)
        kernel("hardware:store_pair")(
            key.view(n, _HEADS, _DIM), value.view(n, _HEADS, _DIM), k_out, v_out, loc, scale, scale, dtype=dtype
        )  # fmt: skip

    moved = 2 * (query.nbytes + key.nbytes) + value.nbytes + 2 * n * width * dtype.itemsize
    return Built({OURS: fused, "sglang_platform, two launches": apart}, moved)


def _sglang_store(*tensors: torch.Tensor) -> Callable[[], Any]:
    from sglang.kernels.ops.kvcache.kvcache import store_cache

    k, v, k_out, v_out = (tensor.view(tensor.shape[0], -1) for tensor in tensors[:4])
    width = k.shape[1] * k.element_size()
    return partial(
        store_cache, k, v, k_out, v_out, tensors[4], row_bytes=width, v_row_bytes=width, size_limit=_SLOTS
    )


def _move(n: int, device: torch.device) -> Built:
    buffers = [filled((32768, 1024), _BF16, device) for _ in range(64)]
    places = torch.randperm(32768, device=device)
    target, source = places[:n], places[n : 2 * n]
    shapes = architectures().shapes(device)
    table = BufferTable([Rows(buffer) for buffer in buffers])

    def with_torch() -> None:
        for buffer in buffers:
            buffer[target] = buffer[source]

    built = Built({OURS: lambda: kv_move.move(table, target, source, shapes=shapes)}, 2 * n * 64 * 1024 * 2)
    built.add("torch", lambda: with_torch)
    return built


def _allocate(batch: int, device: torch.device) -> Built:
    """An extend by 1000 tokens and 8 decode steps of every request, as the scheduler calls them."""

    def history(cls: Any) -> Callable[[], None]:
        allocator = cls(1 << 20, 16, _BF16, device, None, False)
        zero, seq = torch.zeros(batch, dtype=torch.int64), torch.full((batch,), 1000, dtype=torch.int64)
        prefix, length, none = (t.to(device) for t in (zero, seq, zero - 1))
        if hasattr(allocator, "backup_state"):
            give_back = partial(allocator.restore_state, allocator.backup_state())
        else:  # SGLang's keeps the free pages in an attribute
            give_back = partial(setattr, allocator, "free_pages", allocator.free_pages)

        def run() -> None:
            last = allocator.alloc_extend(prefix, zero, length, seq, none, batch * 1000).view(batch, 1000)[
                :, -1
            ]
            for step in range(1, 9):
                last = allocator.alloc_decode(length + step, seq + step, last)
            give_back()

        return run

    built = Built({OURS: history(part("allocator"))}, batch * 1008 * 8)
    built.add("core's torch code", lambda: history(PagedTokenToKVPoolAllocator))
    built.add("sglang", lambda: history(_sglang_allocator()))
    return built


def _free(batch: int, device: torch.device) -> Built:
    """Requests of 1008 tokens end one by one, and others take their pages; what it costs to tell a page freed twice."""

    def round_of(cls: Any, *, looks: bool = True) -> Callable[[], None]:
        allocator = cls(1 << 20, 16, _BF16, device, None, False)
        if not looks:
            allocator._free_list._marks = None

        def run() -> None:
            for slots in allocator.alloc(batch * 1008).split(1008):
                allocator.free_segment(slots, start_pos=0)

        return run

    cls = part("allocator")
    built = Built({OURS: round_of(cls)}, batch * 1008 * 8)
    built.add("without a look", lambda: round_of(cls, looks=False))
    built.add("in debug mode", lambda: round_of(type("Debugged", (cls,), {"debug_mode": True})))
    return built


def _sglang_allocator() -> Any:
    from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator as Theirs

    return Theirs


class _Decoder(torch.nn.Module):
    """Many small kernels and no attention: what a graph saves is the host's work for each."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(1000, 1024, device=device, dtype=_BF16)
        layers = (torch.nn.Linear(1024, 1024, device=device, dtype=_BF16) for _ in range(32))
        self.layers = torch.nn.ModuleList(layers)

    @torch.no_grad()
    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, batch: Any) -> torch.Tensor:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = x + torch.nn.functional.silu(layer(x))
        return x


def _replay(n: int, device: torch.device) -> Built:
    """A step through the runner; the bare replay of the same graph is what it cannot be faster than."""
    from sglang_platform.core.attention.batch import ForwardBatch, ForwardMode

    model = _Decoder(device)
    integers = [torch.ones(n, dtype=torch.int64, device=device) for _ in range(5)]
    batch = ForwardBatch(
        ForwardMode.DECODE, n, *integers[:3], positions=integers[3], input_ids=integers[4]
    )  # fmt: skip

    def eager() -> None:
        model(batch.input_ids, batch.positions, batch)

    if device.type == "cpu":  # nothing is captured without a device
        return Built({OURS: eager}, 0)
    backend = SimpleNamespace(
        init_cuda_graph_state=lambda *_: None,
        get_cuda_graph_seq_len_fill_value=lambda: 1,
        init_forward_metadata_out_graph=lambda *_, **__: None,
        init_forward_metadata_in_graph=lambda *_: None,
    )
    sizes = [1, 8, 32]
    runner = part("graph_runner")(
        SimpleNamespace(model=model, attn_backend=backend, device=device, graph_batch_sizes=sizes)
    )
    bare = runner.captured[min(size for size in sizes if size >= n)].graph.replay
    return Built({OURS: lambda: runner.execute(batch), "bare replay": bare, "eager": eager}, 0)
