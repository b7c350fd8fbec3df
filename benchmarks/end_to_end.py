"""Tokens per second of SGLang on the example device, against its own `torch_native` path, transformers, and the memory.

One model, made here with random weights and larger than the processor's caches; the contenders in turn, each in
processes of its own, on the same prompts. Decode is timed as the difference between a long and a one-token reply to
prompts that are in the prefix cache; prefill as a one-token reply to a prompt that is new. The bound is what one
reading of all weights, and of the requests' KV cache, takes at the bandwidth that the same threads read memory with:
the best of several readers, for none of them reaches it in every run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

MODEL = {
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 8192,
}
OURS, NATIVE, TRANSFORMERS, BOUND = (
    "example device",
    "SGLang torch_native",
    "transformers, static cache",
    "memory bandwidth",
)
RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


def versions() -> dict[str, str]:
    return {
        name: version(name) for name in ("sglang", "torch", "transformers", "sglang-platform-example-oot")
    }


def prompts(batch: int, context: int, seed: int) -> list[list[int]]:
    from sglang_platform.conformance.host import reference

    return reference.prompts([context] * batch, seed=seed)


def serve(
    name: str, checkpoint: Path, cases: list[tuple[int, int]], new_tokens: int, dtype: str
) -> Iterator[Row]:
    """SGLang on the example device, or with every part its own (`native_platform.py`)."""
    from sglang_platform.conformance.host.distribution import path_with, write_distribution
    from sglang_platform.conformance.host.engine import EngineProcess

    largest = max(batch * (context + 2 * new_tokens) for batch, context in cases)
    arguments: dict[str, Any] = {
        "model_path": str(checkpoint),
        "dtype": dtype,
        "page_size": 1 if name == NATIVE else 16,
        "max_total_tokens": largest + 4096,
        "chunked_prefill_size": 2048,
        "max_running_requests": max(batch for batch, _ in cases),
        "cuda_graph_bs_decode": sorted({batch for batch, _ in cases}),
        "mem_fraction_static": 0.7,
    }
    if name == NATIVE:
        arguments |= {"device": "cpu", "attention_backend": "torch_native", "disable_cuda_graph": True}
        del arguments["cuda_graph_bs_decode"]
    with ExitStack() as stack:
        variables = {}
        if name == NATIVE:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            plugin = {"sglang.srt.platforms": "torch_native = native_platform:activate"}
            write_distribution(folder, "native-platform", plugin)
            variables["PYTHONPATH"] = os.pathsep.join([path_with(folder), str(Path(__file__).parent)])
        platform_name = "torch_native" if name == NATIVE else "example_oot"
        engine = stack.enter_context(EngineProcess(platform_name, arguments, environment=variables))

        def seconds(asked: list[list[int]], tokens: int) -> float:
            start = time.perf_counter()
            engine.call("generate", input_ids=asked, max_new_tokens=tokens)
            return time.perf_counter() - start

        seconds(prompts(1, 64, 999), 8)  # what is done once
        for number, (batch, context) in enumerate(cases):
            asked = prompts(batch, context, number)
            prefill = seconds(asked, 1)
            pairs = [(seconds(asked, 1), seconds(asked, 1 + new_tokens)) for _ in range(3)]
            decode = statistics.median(long - short for short, long in pairs)
            yield row(name, batch, context, batch * context / prefill, batch * new_tokens / decode)
            engine.call("flush_cache")
        if name == OURS:
            counts = engine.counters()
            assert counts["example_oot.graph.replays"] > 0, counts
            assert not counts.get("host.attention.calls"), counts


def transformers(
    checkpoint: Path, cases: list[tuple[int, int]], new_tokens: int, dtype: str
) -> Iterator[Row]:
    import torch
    from transformers import AutoModelForCausalLM, StoppingCriteria

    class Clock(StoppingCriteria):
        """Notes when each token was there; stops nothing."""

        def __init__(self, batch: int) -> None:
            self.times = [time.perf_counter()]
            self.go_on = torch.zeros(batch, dtype=torch.bool)

        def __call__(self, *_: Any, **__: Any) -> torch.Tensor:
            self.times.append(time.perf_counter())
            return self.go_on

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=getattr(torch, dtype)).eval()

    def times(asked: list[list[int]], tokens: int) -> list[float]:
        ids, clock = torch.tensor(asked), Clock(len(asked))
        with torch.no_grad():
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                cache_implementation="static",
                stopping_criteria=[clock],
            )
        return clock.times

    times(prompts(1, 64, 999), 8)  # what is done once
    for number, (batch, context) in enumerate(cases):
        start, first, *rest = times(prompts(batch, context, number), 1 + new_tokens)
        decode = batch * new_tokens / (rest[-1] - first)
        yield row(TRANSFORMERS, batch, context, batch * context / (first - start), decode)


def bound(checkpoint: Path, cases: list[tuple[int, int]], dtype: str) -> Iterator[Row]:
    import torch

    config = json.loads((checkpoint / "config.json").read_text())
    item = getattr(torch, dtype).itemsize
    # The embedding is looked up, not read; everything else is read once a step.
    parameters = sum(path.stat().st_size for path in checkpoint.glob("*.safetensors")) / 4
    weights = (parameters - config["vocab_size"] * config["hidden_size"]) * item
    per_token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * item
    bandwidth = read_bandwidth()
    for batch, context in cases:
        step = (weights + batch * context * per_token) / bandwidth
        yield {**row(BOUND, batch, context, None, batch / step), "bytes_per_second": bandwidth}


def read_bandwidth() -> float:
    """Bytes per second of the fastest of three readers of a gigabyte, each at its best of seven."""
    import torch

    from sglang_platform.example_oot import kernels

    block, vector = torch.ones(1 << 18, 1 << 10), torch.ones(1, 1 << 10)
    out = torch.empty(1, block.shape[0])
    times = []
    for read in (
        block.sum,
        lambda: torch.mv(block, vector[0]),
        lambda: kernels.linear(vector, block, None, out),
    ):
        read()
        for _ in range(7):
            start = time.perf_counter()
            read()
            times.append(time.perf_counter() - start)
    return block.nbytes / min(times)


def row(name: str, batch: int, context: int, prefill: float | None, decode: float) -> Row:
    return {"contender": name, "batch": batch, "context": context, "prefill": prefill, "decode": decode}


def in_a_process(name: str, options: argparse.Namespace, checkpoint: Path) -> list[Row]:
    """A contender's rows, from a process with the run's number of threads."""
    command = [
        sys.executable,
        __file__,
        "--contender",
        name,
        "--model",
        str(checkpoint),
        "--cases",
        options.cases,
    ]
    command += ["--new-tokens", str(options.new_tokens), "--dtype", options.dtype]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def save(report: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "end_to_end.json").write_text(json.dumps(report, indent=1) + "\n")
    cases = list(dict.fromkeys((r["batch"], r["context"]) for r in report["rows"]))
    names = list(dict.fromkeys(r["contender"] for r in report["rows"]))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4))
    for axis, what in ((left, "decode"), (right, "prefill")):
        for i, name in enumerate(names):
            found = {(r["batch"], r["context"]): r[what] for r in report["rows"] if r["contender"] == name}
            places = [
                (x + i * 0.8 / len(names), found[case]) for x, case in enumerate(cases) if found.get(case)
            ]
            axis.bar([x for x, _ in places], [y for _, y in places], width=0.8 / len(names), label=name)
        axis.set_xticks(range(len(cases)), [f"{batch} x {context}" for batch, context in cases])
        axis.set_ylabel(f"{what}, tokens per second")
        axis.set_yscale("log")
    left.set_xlabel("requests x context")
    right.set_xlabel("requests x context")
    left.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(folder / "end_to_end.svg")


def print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "requests x context",
        "contender",
        "decode, tokens/s",
        "ours / this",
        "prefill, tokens/s",
        "ours / this",
    )
    ours = {(r["batch"], r["context"]): r for r in rows if r["contender"] == OURS}
    for r in sorted(rows, key=lambda r: (r["context"], r["batch"])):
        mine = ours[r["batch"], r["context"]]
        prefill = (
            ("", "")
            if r["prefill"] is None
            else (f"{r['prefill']:.0f}", f"{mine['prefill'] / r['prefill']:.2f}")
        )
        decode = (f"{r['decode']:.1f}", f"{mine['decode'] / r['decode']:.2f}")
        table.add_row(f"{r['batch']} x {r['context']}", r["contender"], *decode, *prefill)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cases", default="1x512,8x512,32x512,1x4096,8x4096,32x4096", help="requests x context, with commas"
    )
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--model", type=Path, default=Path("models/end_to_end"), help="where the checkpoint is kept"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = [tuple(int(n) for n in case.split("x")) for case in options.cases.split(",")]
    if options.contender:
        rows = {
            TRANSFORMERS: lambda: transformers(options.model, cases, options.new_tokens, options.dtype),
            BOUND: lambda: bound(options.model, cases, options.dtype),
        }.get(
            options.contender,
            lambda: serve(options.contender, options.model, cases, options.new_tokens, options.dtype),
        )()
        for found in rows:
            print(json.dumps(found), flush=True)
        return
    from sglang_platform.conformance.host.checkpoints import make_checkpoint

    checkpoint = make_checkpoint(options.model, "llama", **MODEL).resolve()
    rows = []
    for name in (OURS, NATIVE, TRANSFORMERS, BOUND):
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += in_a_process(name, options, checkpoint)
    print_table(rows)
    report = {
        "machine": platform.processor() or platform.machine(),
        "versions": versions(),
        "threads": options.threads,
        "dtype": options.dtype,
        "model": MODEL,
        "new_tokens": options.new_tokens,
        "load_at_end": os.getloadavg()[0],
        "rows": rows,
    }
    save(report, options.results)


if __name__ == "__main__":
    main()
