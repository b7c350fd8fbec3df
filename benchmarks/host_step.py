"""What a decode step costs on the host by batch: metadata of the attention backend, the allocator, the graph runner.

    python benchmarks/host_step.py [--package cuda] [--batches 1,32,128,256,512] [--json PATH]

Medians in microseconds, in one thread, on CPU tensors. Launches are recorded and not made: what is timed is the code
around them. A row `max of a tensor` is Python's `max` over the lengths of the requests, with which the step's longest
request was found before; `longest request` is what finds it now, and only in a step without a graph.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.core import MHATokenToKVPool, ReqToTokenPool
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.graph.runner import GraphRunner
from sglang_platform.core.portable.triton import split_work
from sglang_platform.core.portable.triton.attention_step import TritonAttentionStep
from sglang_platform.core.portable.triton.wrappers import decode

__all__ = ["Launches", "calls_of_a_step"]

PAGE, CONTEXT, WIDTH = 16, 4096, 4352
REPEATS, TURNS = 15, 40


class Launches:
    """Stands for a kernel: takes its grid and its arguments."""

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *arguments, **constants: None


class _Replayed:
    def replay(self) -> None: ...


class _Runner(GraphRunner):
    def record(self, run: Callable[[], Any]) -> tuple[_Replayed, Any]:
        return _Replayed(), run()


def calls_of_a_step(package: str, batch: int) -> dict[str, Callable[[], Any]]:
    """By name, what the parts of `package` do on the host in a decode step of `batch` requests.

    `split_work.plan_kernel` must be one that records, too."""
    kernels = f"sglang_platform.{package}.kernels"
    hardware = importlib.import_module(f"{kernels}.hardware").HARDWARE
    module = importlib.import_module(f"sglang_platform.{package}.attention.backend")
    of_package = getattr(module, module.__all__[0])
    allocator_module = importlib.import_module(f"sglang_platform.{package}.allocator")
    no_merge: Callable[..., None] = lambda *arguments, **options: None  # noqa: E731
    recorded = partial(decode.paged_decode, hardware=hardware, decode_kernel=Launches(), merge_parts=no_merge)
    backend_class = type("Backend", (of_package,), {"kernels": replace(of_package.kernels, decode=recorded)})

    pool = MHATokenToKVPool(64 * PAGE, PAGE, torch.bfloat16, 2, 64, 1, "cpu", False)
    requests = ReqToTokenPool(batch, WIDTH, "cpu", False)
    model = SimpleNamespace(
        token_to_kv_pool=pool, req_to_token_pool=requests, device="cpu", graph_batch_sizes=[batch]
    )
    backend = backend_class(model)
    model.attn_backend = backend
    lengths = CONTEXT - torch.arange(batch) % 997
    rows = torch.arange(batch) + 1
    step = ForwardBatch(
        forward_mode=ForwardMode.DECODE, batch_size=batch, req_pool_indices=rows, seq_lens=lengths,
        seq_lens_cpu=lengths,
        out_cache_loc=rows % 64, input_ids=rows, positions=lengths - 1,
    )  # fmt: skip
    layer = AttentionLayer(0, 4, 2, 2, 64, 64, 0.125)
    q = torch.zeros(batch, 4 * 64, dtype=torch.bfloat16)
    model.model = SimpleNamespace(forward=lambda ids, positions, one: q[: one.batch_size])
    runner = _Runner(model)
    allocator = getattr(allocator_module, allocator_module.__all__[0])(
        2 * batch * PAGE, PAGE, torch.bfloat16, "cpu", None, False
    )

    def allocate() -> None:
        state = allocator.backup_state()
        allocator.alloc_decode(lengths, lengths, lengths - 2)
        allocator.restore_state(state)

    backend.init_forward_metadata(step)
    return {
        "metadata": lambda: backend.init_forward_metadata(step),
        "longest request": lambda: TritonAttentionStep(lengths=lengths).longest,
        "allocator": allocate,
        "graph runner": lambda: runner.execute(step),
        "attention, a layer": lambda: backend.forward(q, None, None, layer, step, save_kv_cache=False),
    }


def microseconds(call: Callable[[], Any]) -> float:
    """The median over `REPEATS` samples of `TURNS` calls."""
    samples = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(TURNS):
            call()
        samples.append((time.perf_counter() - start) / TURNS * 1e6)
    return statistics.median(samples)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="host_step.py")
    parser.add_argument("--package", choices=("cuda", "rocm"), default="cuda")
    parser.add_argument("--batches", default="1,32,128,256,512")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    split_work.plan_kernel = Launches()
    batches = [int(n) for n in options.batches.split(",")]
    table: dict[str, dict[int, float]] = {}
    for batch in batches:
        calls = calls_of_a_step(options.package, batch)
        lengths = torch.arange(batch) + 1
        calls["max of a tensor"] = lambda lengths=lengths: int(max(lengths))
        for name, call in calls.items():
            table.setdefault(name, {})[batch] = microseconds(call)
    print("| microseconds of the host | " + " | ".join(map(str, batches)) + " |")
    print("|---" * (len(batches) + 1) + "|")
    for name, row in table.items():
        print(f"| {name} | " + " | ".join(f"{row[batch]:.1f}" for batch in batches) + " |")
    if options.json is not None:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
