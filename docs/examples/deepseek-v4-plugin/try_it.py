"""Serve a tiny DeepSeek-V3-shaped model on the example device with this plugin, as its switches are set, and print what
its parts counted in SGLang's scheduler process: `DSV4_MODEL=1 DSV4_MXFP4=1 ... python try_it.py`."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from sglang_platform.conformance.host import processes, reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess
from sglang_platform.core import counters

__all__ = ["NEW_TOKENS", "PROMPTS", "Served", "serve"]

PROMPTS = reference.prompts((5, 40, 90, 150, 200, 220))  # 53 pages with their answers
NEW_TOKENS = 12
_SETTINGS: dict[str, Any] = {
    "page_size": 16,
    "disable_cuda_graph": True,  # the experts look at values, no graph can
    "max_running_requests": 2,
    "context_length": 256,  # 16 pages each: 33 with that of the padding
    "watchdog_timeout": 600,
}


class Served(NamedTuple):
    """Tokens of each prompt, the plugin's and the device's counts in the scheduler, what its registries hold."""

    tokens: list[list[int]]
    counts: dict[str, int]
    registries: dict[str, Any]


def serve(checkpoint: Path, folder: Path, environment: dict[str, str] | None = None) -> Served:
    """The prompts twice, the second time with prefixes from the cache. `folder` takes the model and the reports."""
    settings = {"model_path": str(_shaped(checkpoint, folder / "shaped")), **_SETTINGS}
    with EngineProcess("example_oot", settings, environment=environment, report_dir=folder) as engine:
        rounds = [
            [
                one["output_ids"]
                for one in engine.call("generate", input_ids=PROMPTS, max_new_tokens=NEW_TOKENS)
            ]
            for _ in range(2)
        ]
        engine.call("flush_cache")
        counted, reports = counters.read_all(folder), processes.read(folder)
    if rounds[0] != rounds[1]:
        raise RuntimeError("prefixes from the cache changed the tokens")
    scheduler = next(pid for pid, counts in counted.items() if counts.get("host.process.scheduler"))
    registries = next(report["registries"] for report in reports if report["pid"] == scheduler)
    return Served(rounds[0], counted[scheduler], registries)


def _shaped(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint under the plugin's architecture, and under SGLang's for when the plugin is off."""
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["DeepseekV4ShapedForCausalLM", *config["architectures"]]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _with_experts_as_stored(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint whose experts have the values that MXFP4 keeps of them."""
    from deepseek_v4_plugin.mxfp4 import dequantise, quantise
    from safetensors.torch import load_file, save_file

    shutil.copytree(checkpoint, folder)
    for file in folder.glob("*.safetensors"):
        weights = {
            name: dequantise(*quantise(weight), weight.dtype) if ".mlp.experts." in name else weight
            for name, weight in load_file(file).items()
        }
        save_file(weights, file, metadata={"format": "pt"})
    return folder


def main() -> None:
    from deepseek_v4_plugin.switches import Switches

    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = make_checkpoint(Path(scratch) / "deepseek_v3", "deepseek_v3")
        served = serve(checkpoint, Path(scratch) / "run")
        plain_run = "a plain run"
        if Switches.read().mxfp4:
            checkpoint = _with_experts_as_stored(checkpoint, Path(scratch) / "as_stored")
            plain_run += " of the experts as MXFP4 has them"
        plain = reference.greedy(checkpoint, PROMPTS, NEW_TOKENS)
    equal = sum(
        a == b
        for mine, right in zip(served.tokens, plain, strict=True)
        for a, b in zip(mine, right, strict=True)
    )
    print(f"{equal} of {len(PROMPTS) * NEW_TOKENS} tokens are those of {plain_run}")
    for name, entries in served.registries.items():
        if name != "answers" and entries:
            print(f"{name}: {', '.join(one['id'] for one in entries)}")
    for name, count in sorted(served.counts.items()):
        if name.startswith("deepseek_v4."):
            print(f"{count:>10,}  {name}")


if __name__ == "__main__":
    main()
