"""Where the milliseconds of a decode step go: SGLang 0.5.23 on the example device, as a plot.

Two runs of one engine each. In the first, hooks of ours (AROUND, registered by a general plugin that exists for the
run only) time the functions of the scheduler's loop, each without those that it calls; the device replays graphs. In
the second, without graphs and with the host waiting for each operator, where torch's profiler sees how long it takes,
the forward pass is split by operator. Steps are medians; the first ones are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from end_to_end import MODEL, RESULTS, prompts, versions

PLUGIN = """
import json, os, time
from sglang_platform.core import HookRegistry, HookType

OUT, OPERATORS = os.environ["DECODE_PROFILE"], os.environ.get("DECODE_PROFILE_OPERATORS") == "1"
SCHEDULER, RUNNER = "sglang.srt.managers.scheduler:Scheduler", "sglang.srt.model_executor.model_runner:ModelRunner"
TIMED = {
    f"{SCHEDULER}.ingest_requests": "requests",
    f"{SCHEDULER}.get_next_batch_to_run": "next batch",
    f"{SCHEDULER}.run_batch": "run batch",
    f"{SCHEDULER}.process_batch_result": "results",
    f"{RUNNER}.forward": "forward",
    f"{RUNNER}.sample": "sample",
}
inner, step, steps = [0.0], {}, []


def timed(name):
    def around(original, *args, **kwargs):
        inner.append(0.0)
        start = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            spent = time.perf_counter() - start
            step[name] = step.get(name, 0.0) + spent - inner.pop()
            inner[-1] += spent
    return around


def end_of_step(result, scheduler, batch, *args, **kwargs):
    if batch.forward_mode.is_decode():
        steps.append(dict(step))
        if len(steps) % 16 == 0:
            with open(OUT + ".new", "w") as file:
                json.dump(steps, file)
            os.replace(OUT + ".new", OUT)
    step.clear()


def operators(original, runner, forward_batch, *args, **kwargs):
    if not forward_batch.forward_mode.is_decode():
        return original(runner, forward_batch, *args, **kwargs)
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        result = original(runner, forward_batch, *args, **kwargs)
    for event in seen.key_averages():
        step[event.key] = step.get(event.key, 0.0) + event.self_cpu_time_total / 1e6
    return result


def register():
    if OPERATORS:
        HookRegistry.register(f"{RUNNER}.forward", operators, HookType.AROUND)
    else:
        for target, name in TIMED.items():
            HookRegistry.register(target, timed(name), HookType.AROUND)
    HookRegistry.register(f"{SCHEDULER}.process_batch_result", end_of_step, HookType.AFTER, order=1)
"""


def steps(batch: int, context: int, checkpoint: Path, *, operators: bool) -> list[dict[str, float]]:
    """Seconds by name of each decode step."""
    from sglang_platform.conformance.host.distribution import path_with, write_distribution
    from sglang_platform.conformance.host.engine import EngineProcess

    with tempfile.TemporaryDirectory(prefix="decode-profile-") as name:
        folder = Path(name)
        (folder / "decode_profile_plugin.py").write_text(PLUGIN)
        entry_point = "decode_profile = decode_profile_plugin:register"
        write_distribution(folder, "decode-profile", {"sglang.srt.plugins": entry_point})
        environment = {
            "PYTHONPATH": path_with(folder),
            "DECODE_PROFILE": str(folder / "steps.json"),
            "DECODE_PROFILE_OPERATORS": str(int(operators)),
        }
        if operators:
            environment["SGLANG_EXAMPLE_OOT_BLOCKING"] = "1"
        arguments: dict[str, Any] = {
            "model_path": str(checkpoint),
            "dtype": "float32",
            "page_size": 16,
            "max_total_tokens": 2 * batch * (context + 128),
            "max_running_requests": batch,
            "cuda_graph_bs_decode": [batch],
            "disable_cuda_graph": operators,
            "disable_overlap_schedule": True,  # the steps' parts one after the other
            "mem_fraction_static": 0.7,
        }
        with EngineProcess("example_oot", arguments, environment=environment) as engine:
            engine.call("generate", input_ids=prompts(batch, context, 1), max_new_tokens=65)
            return json.loads((folder / "steps.json").read_text())[8:]


def medians(found: list[dict[str, float]], most: int) -> dict[str, float]:
    """Milliseconds by name, the largest first; beyond `most` under "other"."""
    names = {name for step in found for name in step}
    each = {name: 1e3 * statistics.median(step.get(name, 0.0) for step in found) for name in names}
    ordered = sorted(each.items(), key=lambda pair: -pair[1])
    rest = sum(value for _, value in ordered[most:])
    return {**dict(ordered[:most]), **({"other": rest} if rest else {})}


def save(report: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "decode_profile.json").write_text(json.dumps(report, indent=1) + "\n")
    figure, axes = pyplot.subplots(
        len(report["cases"]), 2, figsize=(13, 2.2 * len(report["cases"])), squeeze=False
    )
    for (left, right), case in zip(axes, report["cases"], strict=True):
        for axis, key, title in (
            (left, "step", "a step, by function of SGLang"),
            (right, "operators", "its forward pass without a graph, by operator"),
        ):
            start = 0.0
            for name, value in case[key].items():
                axis.barh([0], [value], left=start, label=f"{name} {value:.2f}")
                start += value
            axis.set_title(f"{case['batch']} x {case['context']}: {title}, {start:.1f} ms", fontsize=9)
            axis.set_yticks([])
            axis.set_xlabel("ms", fontsize=8)
            axis.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(folder / "decode_profile.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="1x512,8x512,1x4096", help="requests x context, with commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--model", type=Path, default=Path("models/end_to_end"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    from sglang_platform.conformance.host.checkpoints import make_checkpoint

    checkpoint = make_checkpoint(options.model, "llama", **MODEL).resolve()
    cases = []
    for case in options.cases.split(","):
        batch, context = (int(number) for number in case.split("x"))
        print(f"{case} ...", file=sys.stderr, flush=True)
        cases.append(
            {
                "batch": batch,
                "context": context,
                "step": medians(steps(batch, context, checkpoint, operators=False), 8),
                "operators": medians(steps(batch, context, checkpoint, operators=True), 8),
            }
        )
        print(json.dumps(cases[-1], indent=1))
    save(
        {"versions": versions(), "threads": options.threads, "model": MODEL, "unit": "ms", "cases": cases},
        options.results,
    )


if __name__ == "__main__":
    main()
