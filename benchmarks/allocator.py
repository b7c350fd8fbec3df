"""Slot allocators on the CPU: ours against SGLang's torch-native ones, in one run.

    python benchmarks/allocator.py [--slots 1048576] [--against sglang|unchecked] [--json allocator.json]

`--against unchecked`: ours without the look-up that tells a page freed twice (`core.memory.page_marks`).
Every case runs the same calls, with the same numbers, on both allocators, in turn, after a warm-up that
leaves the free list in the disorder of a server that has run for a while. Reported are medians per call in
microseconds and the ratio. One thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from sglang_platform.core import PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator

REPEATS = 25

Call = Callable[[], Any]
Step = tuple[str, Call]


def build(owner: str, slots: int, page_size: int, need_sort: bool) -> Any:
    if owner != "sglang":
        token, paged = TokenToKVPoolAllocator, PagedTokenToKVPoolAllocator
    else:
        from sglang.srt.mem_cache.allocator import paged as host_paged
        from sglang.srt.mem_cache.allocator import token as host_token

        token, paged = host_token.TokenToKVPoolAllocator, host_paged.PagedTokenToKVPoolAllocator
    arguments = {"dtype": torch.bfloat16, "device": "cpu", "kvcache": None, "need_sort": need_sort}
    allocator: Any
    if page_size == 1:
        allocator = token(slots, **arguments)
    else:
        allocator = paged(slots, page_size=page_size, **arguments)
    if owner == "sglang":
        allocator.use_triton_kernels = False
    if owner == "unchecked":
        allocator._free_list._marks = None
    return allocator


def age(allocator: Any, page_size: int) -> None:
    """Use most of the pool once and free it in another order, half of it for good."""
    chunk = 16 * 1024
    held = [allocator.alloc(chunk) for _ in range(int(allocator.available_size() * 0.75) // chunk)]
    order = torch.randperm(len(held), generator=torch.Generator().manual_seed(0)).tolist()
    for i in order[: len(order) // 2]:
        allocator.free_segment(held[i], start_pos=0)
    if page_size > 1:
        allocator.merge_and_sort_free()


def token_steps(allocator: Any, count: int, rounds: int) -> Iterator[Step]:
    held: list[torch.Tensor] = []
    for _ in range(rounds):
        yield "alloc", lambda: held.append(allocator.alloc(count))
        yield "free", lambda: allocator.free(held.pop())


def paged_steps(allocator: Any, batch: int, prompt: int, decodes: int) -> Iterator[Step]:
    """A prefill batch without and one with a cached prefix, decode steps, then every request is freed."""
    generator = torch.Generator().manual_seed(1)
    lens = torch.randint(prompt // 2, prompt + prompt // 2, (batch,), generator=generator)
    more = lens + torch.randint(1, prompt, (batch,), generator=generator)
    none = torch.zeros_like(lens)
    slots: list[list[torch.Tensor]] = []
    last: torch.Tensor = none - 1

    def extend(prefix: torch.Tensor, seq: torch.Tensor) -> None:
        nonlocal last
        total = int((seq - prefix).sum())
        out = allocator.alloc_extend(prefix, prefix, seq, seq, last, total)
        results.append(out)

    def decode(seq: torch.Tensor) -> None:
        results.append(allocator.alloc_decode(seq, seq, last))

    for prefix, seq in ((none, lens), (lens, more)):
        results: list[torch.Tensor] = []
        yield "extend", lambda prefix=prefix, seq=seq: extend(prefix, seq)
        parts = list(torch.split(results[0], (seq - prefix).tolist()))
        slots.append(parts)
        last = torch.stack([part[-1] for part in parts])
    seq = more
    for _ in range(decodes):
        seq = seq + 1
        results = []
        yield "decode", lambda seq=seq: decode(seq)
        last = results[0]
        slots.append(list(last.split(1)))
    rows = [torch.cat([step[i] for step in slots]) for i in range(batch)]
    for i, row in enumerate(rows):
        if i % 2:
            yield "free", lambda row=row: allocator.free(row)
        else:
            yield "free_segment", lambda row=row: allocator.free_segment(row, start_pos=0)


def measure(
    make_steps: Callable[[Any], Iterator[Step]], allocators: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Median microseconds by call and owner, and of all calls of a round together.

    The owners take turns, so that drift of the machine hits both alike.
    """
    times: dict[str, dict[str, list[float]]] = {}
    for repeat in range(REPEATS + 2):
        for owner, allocator in allocators.items():
            whole = 0.0
            for name, call in make_steps(allocator):
                start = time.perf_counter()
                call()
                taken = time.perf_counter() - start
                whole += taken
                if repeat >= 2:
                    times.setdefault(name, {}).setdefault(owner, []).append(taken)
            if repeat >= 2:
                times.setdefault("whole round", {}).setdefault(owner, []).append(whole)
    return {
        name: {owner: statistics.median(values) * 1e6 for owner, values in by_owner.items()}
        for name, by_owner in times.items()
    }


BATCHES = {
    "sglang": ((1, 2048), (32, 512), (256, 512)),
    "unchecked": ((1, 512), (8, 512), (64, 512), (512, 512)),
}
"""Requests and tokens of a prompt."""


def cases(against: str) -> Iterator[tuple[str, int, bool, Callable[[Any], Iterator[Step]]]]:
    """(name, page size, need_sort, steps)"""
    for need_sort in (False, True):
        for count in (1, 64, 4096):
            yield f"{count} slots", 1, need_sort, lambda a, count=count: token_steps(a, count, rounds=50)
        for page_size in (16, 64):
            for batch, prompt in BATCHES[against]:
                yield (
                    f"batch {batch} x {prompt}",
                    page_size,
                    need_sort,
                    lambda a, b=batch, p=prompt: paged_steps(a, b, p, decodes=20),
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--slots", type=int, default=1 << 20)
    parser.add_argument("--against", choices=tuple(BATCHES), default="sglang")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)

    rows: list[dict[str, Any]] = []
    layout = "{:>4} {:>9}  {:<16} {:<13} {:>12} {:>10} {:>7}"
    print(layout.format("page", "need_sort", "case", "call", f"{options.against} us", "ours us", "ratio"))
    for case, page_size, need_sort, make_steps in cases(options.against):
        allocators = {
            owner: build(owner, options.slots, page_size, need_sort) for owner in (options.against, "ours")
        }
        for allocator in allocators.values():
            age(allocator, page_size)
        for name, result in measure(make_steps, allocators).items():
            theirs, ours = result[options.against], result["ours"]
            row = {"page_size": page_size, "need_sort": need_sort, "case": case, "call": name}
            rows.append({**row, f"{options.against}_us": theirs, "ours_us": ours, "ratio": theirs / ours})
            figures = (f"{theirs:.1f}", f"{ours:.1f}", f"{theirs / ours:.2f}x")
            print(layout.format(page_size, str(need_sort), case, name, *figures))
    for call in dict.fromkeys(row["call"] for row in rows):
        ratios = sorted(row["ratio"] for row in rows if row["call"] == call)
        print(f"{call:<13} median {statistics.median(ratios):.2f}x, lowest {ratios[0]:.2f}x")
    if options.json:
        import sglang

        report = {
            "slots": options.slots,
            "repeats": REPEATS,
            "torch": torch.__version__,
            "sglang": sglang.__version__,
            "python": platform.python_version(),
            "processor": platform.machine(),
            "rows": rows,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
