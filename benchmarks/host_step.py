"""What a decode step costs on the host by batch: the attention backend, the allocator, the pool, the graph runner.

    python benchmarks/host_step.py [--package cuda] [--batches 1,32,128,256,512] [--json PATH]

Medians in microseconds, in one thread, on CPU tensors that stand for an architecture's. Launches are recorded and not
made: what is timed is the code around them, and torch's operators. `replayed step` is the step of a graph in which a
request ends. A row `max of a tensor` is Python's `max` over the lengths of the requests,
with which the step's longest request was found before; `longest request` finds it now, without a graph only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from sglang_platform.core import MHATokenToKVPool, ReqToTokenPool
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.graph.runner import GraphRunner
from sglang_platform.core.memory.page_marks import LateMarks
from sglang_platform.core.portable.triton import page_slots, split_work
from sglang_platform.core.portable.triton.architecture import for_architecture
from sglang_platform.core.portable.triton.attention_step import TritonAttentionStep
from sglang_platform.core.portable.triton.kernels import kv_store
from sglang_platform.core.portable.triton.wrappers import decode

__all__ = ["NOT_REPLAYED", "calls_of_a_step", "recording"]

PAGE, CONTEXT, WIDTH = 16, 4096, 4352
REPEATS, TURNS = 15, 40
NOT_REPLAYED = ("a request comes and ends", "attention, a layer", "store, a layer", "longest request")
"""What is of a prefill, or of a step without a graph."""
_KERNELS = (
    (split_work, "plan_kernel"),
    (page_slots, "decode_slots_kernel"),
    (page_slots, "extend_slots_kernel"),
    (kv_store, "store_pair_kernel"),
)


class Launches:
    """Stands for a kernel: takes its grid and its arguments."""

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *arguments, **constants: None


class _Replayed:
    def replay(self) -> None: ...


class _Runner(GraphRunner):
    def record(self, run: Callable[[], Any]) -> tuple[_Replayed, Any]:
        return _Replayed(), run()


@contextmanager
def recording(package: str) -> Iterator[None]:
    """Within it kernels are recorded, and CPU tensors stand for an architecture of `package`."""
    records = importlib.import_module(f"sglang_platform.{package}.kernels.tuning").ARCHITECTURES
    with ExitStack() as stack:
        stack.enter_context(for_architecture(records.of(torch.device("cpu"))))
        for module, name in _KERNELS:
            stack.enter_context(patch.object(module, name, Launches()))
        yield


def calls_of_a_step(package: str, batch: int) -> dict[str, Callable[[], Any]]:
    """By name, what the parts of `package` do on the host in a decode step of `batch` requests, within `recording`."""
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
    of_device = getattr(allocator_module, allocator_module.__all__[0])
    as_on_device = type("Allocator", (of_device,), {"use_numpy_on_cpu": False})
    allocators = [
        as_on_device(64 * (batch * PAGE + CONTEXT), PAGE, torch.bfloat16, "cpu", None, False)
        for _ in range(2)
    ]
    for one in allocators:
        free = one._free_list
        free._marks = LateMarks(free.capacity, free.ids, torch.zeros(1, dtype=torch.int64))
    decodes, extends = allocators
    last = lengths - 2

    def allocate() -> None:
        if decodes.available_size() < batch * PAGE:
            decodes.clear()
        decodes.alloc_decode(lengths, lengths, last)

    none, context, before = torch.tensor([0]), torch.tensor([CONTEXT]), torch.tensor([-1])
    lent = extends.alloc(CONTEXT)  # and again: the pages that were freed last are lent first
    extends.free_segment(lent, start_pos=0)

    def end() -> None:
        extends._free_list.drop(CONTEXT // PAGE)
        extends.free_segment(lent, start_pos=0)

    def come_and_end() -> None:
        extends.alloc_extend(none, none, context, context, before, CONTEXT)
        extends.free_segment(lent, start_pos=0)

    pools = importlib.import_module(f"sglang_platform.{package}.kv_pools").POOLS
    eight_bit = pools["mha"](64 * PAGE, PAGE, torch.float8_e4m3fn, 2, 64, 1, "cpu", False)
    new = torch.zeros(batch, 2, 64, dtype=torch.bfloat16)
    slots = rows % 64

    backend.init_forward_metadata(step)
    return {
        "metadata": lambda: backend.init_forward_metadata(step),
        "longest request": lambda: TritonAttentionStep(lengths=lengths).longest,
        "allocator": allocate,
        "a request ends": end,
        "a request comes and ends": come_and_end,
        "graph runner": lambda: runner.execute(step),
        "store, a layer": lambda: eight_bit.set_kv_buffer(layer, slots, new, new, 0.5, 0.5),
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
    batches = [int(n) for n in options.batches.split(",")]
    table: dict[str, dict[int, float]] = {}
    with recording(options.package):
        for batch in batches:
            found = {
                name: microseconds(call) for name, call in calls_of_a_step(options.package, batch).items()
            }
            found["replayed step"] = sum(found[name] for name in found if name not in NOT_REPLAYED)
            lengths = torch.arange(batch) + 1
            found["max of a tensor"] = microseconds(lambda lengths=lengths: int(max(lengths)))
            for name, time_taken in found.items():
                table.setdefault(name, {})[batch] = time_taken
    print("| microseconds of the host | " + " | ".join(map(str, batches)) + " |")
    print("|---" * (len(batches) + 1) + "|")
    for name, row in table.items():
        print(f"| {name} | " + " | ".join(f"{row[batch]:.1f}" for batch in batches) + " |")
    if options.json is not None:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
