"""SGLang on a card with its own attention in Triton, then with our parts: tokens and throughput, in steps.

    python benchmarks/gpu_engine.py --model FOLDER --make
    python benchmarks/gpu_engine.py --model FOLDER --out FILE --contender sglang [--cache fp8_e4m3]
    python benchmarks/gpu_engine.py --model FOLDER --out FILE --contender ours [--cache fp8_e4m3]
    python benchmarks/gpu_engine.py --out FILE --compare

The model is a Llama of 1.2 billion random weights. Prompts are new to the cache when prefill is timed, and cached when
decode is: the difference between a long and a one-token reply. Each figure is in FILE when it is known. `--pretend` is
a rehearsal: a tiny model on CPU tensors, our kernels in Triton's interpreter, for SGLang torch's attention, no graphs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INTERPRETED = HERE.parent / "conformance" / "tests" / "host" / "interpreted"
LARGE = {
    "vocab_size": 32000,
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "initializer_range": 0.02,
}
SGLANG, OURS = "sglang", "ours"
PARTS = {SGLANG: "host,ops=own", OURS: "own"}
"""Without `sgl_kernel` the fused ops are ours for both."""
KEPT = 4
"""Replies of a batch whose tokens are kept."""


def arguments(options: argparse.Namespace) -> dict[str, Any]:
    """What `sglang.Engine` gets."""
    largest = max(options.batches)
    asked: dict[str, Any] = {
        "model_path": str(options.model),
        "skip_tokenizer_init": True,
        "grammar_backend": "none",
        "max_running_requests": largest,
        "max_total_tokens": largest * (options.context + options.new_tokens + 64) + 4096,
        "chunked_prefill_size": 8192,
        "page_size": 1 if options.contender == SGLANG else 64,
    }
    if options.cache:
        asked["kv_cache_dtype"] = options.cache
    if options.pretend:
        native = {"attention_backend": "torch_native"} if options.contender == SGLANG else {}
        return {**asked, **native, "disable_cuda_graph": True, "chunked_prefill_size": 64}
    backend = "triton" if options.contender == SGLANG else "sglang_platform_cuda"
    graphs = {"cuda_graph_bs_decode": sorted(options.batches)}
    return {**asked, **graphs, "dtype": "bfloat16", "mem_fraction_static": 0.8, "attention_backend": backend}


def make(options: argparse.Namespace) -> None:
    """Write the checkpoint; on a card it is drawn there, which takes seconds."""
    import torch

    from sglang_platform.conformance.host.checkpoints import make_checkpoint

    with torch.device("cpu" if options.pretend else "cuda"):
        make_checkpoint(options.model, **({} if options.pretend else LARGE))


def serve(options: argparse.Namespace) -> None:
    """Measure one contender."""
    from sglang_platform.conformance.host import reference
    from sglang_platform.conformance.host.engine import EngineProcess

    found: dict[str, Any] = {
        "contender": options.contender,
        "cache": options.cache or "as the model",
        "versions": _versions(),
        "arguments": arguments(options),
        "rows": [],
    }
    started = time.perf_counter()
    with ExitStack() as stack:
        platform, environment = _platform(options, stack)
        engine = stack.enter_context(
            EngineProcess(platform, arguments(options), environment=environment, seconds=options.start_limit)
        )
        found["start"] = time.perf_counter() - started

        def timed(prompts: list[list[int]], tokens: int) -> tuple[float, list[list[int]]]:
            start = time.perf_counter()
            replies = engine.call("generate", input_ids=prompts, max_new_tokens=tokens)
            return time.perf_counter() - start, [reply["output_ids"] for reply in replies]

        timed(reference.prompts((options.context,), seed=99), 4)  # compiles what is compiled at first use
        for batch in options.batches:
            prompts = reference.prompts([options.context] * batch, seed=batch)
            prefill, _ = timed(prompts, 1)
            outputs = timed(prompts, 1 + options.new_tokens)[1]
            pairs = [
                (timed(prompts, 1)[0], timed(prompts, 1 + options.new_tokens)[0])
                for _ in range(options.repeats)
            ]
            seconds = statistics.median(long - short for short, long in pairs)
            decode = batch * options.new_tokens / max(seconds, 1e-9)
            found["rows"].append(
                {
                    "batch": batch,
                    "context": options.context,
                    "prefill": batch * options.context / prefill,
                    "decode": decode,
                    "tokens": outputs[:KEPT],
                }
            )
            found["counters"] = {
                k: v for k, v in engine.counters().items() if k.startswith(("triton.", "host."))
            }
            _put(options.out, found)
            engine.call("flush_cache")


def _platform(options: argparse.Namespace, stack: ExitStack) -> tuple[str, dict[str, str]]:
    """The platform's name, and the variables of the engine's processes."""
    if not options.pretend:
        return "cuda", {"SGLANG_PLATFORM_PARTS": PARTS[options.contender]}
    from sglang_platform.conformance.host.distribution import write_distribution

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    name = "interpreted_cuda"
    write_distribution(
        folder,
        "rehearsed-platform",
        {
            "sglang.srt.platforms": f"{name} = interpreted_plugin:cuda",
            "sglang_platform.contract": f"{name} = v1",
        },
    )
    return name, {
        "PYTHONPATH": os.pathsep.join((os.environ["PYTHONPATH"], str(folder), str(INTERPRETED))),
        "TRITON_INTERPRET": "1",
        "SGLANG_EXAMPLE_OOT_DEVICE": "cpu",
        "OMP_NUM_THREADS": "1",
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in ("sglang", "torch", "triton", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def _put(file: Path, measured: dict[str, Any]) -> None:
    """In the place of an earlier measurement of the same contender."""
    kept = [one for one in _read(file) if _who(one) != _who(measured)]
    file.write_text(json.dumps([*kept, measured], indent=1) + "\n")


def _read(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return found


def _who(measured: dict[str, Any]) -> tuple[str, str]:
    return measured["contender"], measured["cache"]


def compare(file: Path) -> str:
    """The contenders side by side, by cache and batch."""
    measured = {_who(one): one for one in _read(file)}
    lines = [
        "| cache | batch | prefill, tokens/s: SGLang | ours "
        "| decode, tokens/s: SGLang | ours | ours over SGLang | tokens alike |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cache in dict.fromkeys(cache for _, cache in measured):
        sides = [
            {row["batch"]: row for row in measured.get((who, cache), {}).get("rows", [])} for who in PARTS
        ]
        for batch in sorted({*sides[0], *sides[1]}):
            pair = [side.get(batch) for side in sides]
            cells = [f"{one[key]:.0f}" if one else "" for key in ("prefill", "decode") for one in pair]
            theirs, ours = pair
            ratio = f"{ours['decode'] / theirs['decode']:.2f}" if theirs and ours else ""
            alike = _alike(theirs["tokens"], ours["tokens"]) if theirs and ours else ""
            lines.append("| " + " | ".join([cache, str(batch), *cells, ratio, alike]) + " |")
    return "\n".join(lines)


def _alike(theirs: list[list[int]], ours: list[list[int]]) -> str:
    """Tokens of the replies until they part; rounding parts replies of random weights."""
    until = [
        next((n for n, (one, other) in enumerate(zip(a, b, strict=True)) if one != other), len(a))
        for a, b in zip(theirs, ours, strict=True)
    ]
    return f"{sum(until)} of {sum(map(len, ours))}"


def main() -> int:
    """Do what the options ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--make", action="store_true", help="write the model and end")
    parser.add_argument("--compare", action="store_true", help="print the contenders side by side and end")
    parser.add_argument("--contender", choices=tuple(PARTS))
    parser.add_argument("--cache", default="", help="fp8_e4m3 for a cache of 8-bit floats")
    parser.add_argument(
        "--batches", type=lambda text: [int(one) for one in text.split(",")], default=[1, 32, 256]
    )
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--start-limit", type=float, default=120, help="seconds")
    parser.add_argument("--pretend", action="store_true")
    options = parser.parse_args()
    if options.pretend:
        options.batches, options.context, options.new_tokens = [1, 2], 20, 3
        options.repeats, options.start_limit = 1, 600
    if options.make:
        make(options)
    elif options.compare:
        print(compare(options.out))
    else:
        serve(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
