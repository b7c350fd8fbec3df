"""Hooks and fused ops inside what is compiled in a running SGLang: traced with the model, and tokens are right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import processes, reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NEW_TOKENS = 8
ASKED = reference.prompts((9, 40))
MLP = "sglang.srt.models.llama:LlamaMLP.forward"
_PLUGIN = """
import torch
from sglang_platform.core import HookRegistry, HookType, counter

def load():
    for hook, type_ in ((replaced, "REPLACE"), (before, "BEFORE"), (after, "AFTER"), (around, "AROUND")):
        HookRegistry.register("sglang.srt.models.llama:LlamaMLP.forward", hook, HookType[type_])

eager, compiled = counter("my_hooks.eager"), counter("my_hooks.compiled")

def before(*args, **kwargs):
    (compiled if torch.compiler.is_compiling() else eager).add()

def after(result, *args, **kwargs):
    return result

def around(original, *args, **kwargs):
    return original(*args, **kwargs)

def replaced(self, x, *args, **kwargs):
    gate, up = self.gate_up_proj(x)[0].chunk(2, dim=-1)
    return self.down_proj(torch.nn.functional.silu(gate) * up)[0]
"""
_PLATFORM = """
import torch
from sglang_platform.example_oot.platform import ExampleOOTPlatform

class Compiling(ExampleOOTPlatform):
    device_name = "compiling"
    def post_load_model(self, model):
        super().post_load_model(model)
        for layer in model.model.layers:
            layer.mlp.forward = torch.compile(layer.mlp.forward, backend="eager", dynamic=True)
"""
_COMPILED_OP = _PLATFORM.replace("layer.mlp.forward", "layer.mlp.act_fn.forward").replace(
    "dynamic=True", "dynamic=True, fullgraph=True"
)


def test_hooks_in_a_model_that_its_platform_compiles(
    models: Path, tmp_path: Path, installed_hooks: Any
) -> None:
    """The platform is named by `SGLANG_PLATFORM_PLUGIN`, without packaging; it compiles what it has loaded."""
    checkpoint, report_dir = make_checkpoint(models / "llama", "llama"), tmp_path / "report"
    environment = installed_hooks(tmp_path / "site", _PLUGIN)
    (tmp_path / "site" / "compiling_platform.py").write_text(_PLATFORM)
    environment["SGLANG_PLATFORM_PLUGIN"] = "example_oot=compiling_platform:Compiling"
    arguments = {"model_path": str(checkpoint), "page_size": 16, "enable_torch_compile": True}
    with EngineProcess(
        "example_oot", arguments, environment=environment, report_dir=report_dir, seconds=800
    ) as engine:
        replies = engine.call("generate", input_ids=ASKED, max_new_tokens=NEW_TOKENS)
        counts, output = engine.counters(), engine.output()
    assert [reply["output_ids"] for reply in replies] == reference.greedy(checkpoint, ASKED, NEW_TOKENS)
    assert counts["my_hooks.compiled"] > 0, "the hooks were not compiled"
    assert "InternalTorchDynamoError" not in output
    reports = processes.read(report_dir)
    assert {report["platform"]["plugin"]["name"] for report in reports} == {"example_oot"}
    assert MLP in {one["target"] for r in reports for one in r["hooks"] if one["state"] == "applied"}


@pytest.mark.long
def test_a_fused_op_in_a_model_that_its_platform_compiles(models: Path, tmp_path: Path) -> None:
    """What is compiled calls the op first: it finds the registered forward by itself, and the graph is whole."""
    checkpoint = make_checkpoint(models / "llama", "llama")
    (tmp_path / "compiling_platform.py").write_text(_COMPILED_OP)
    environment = {
        "SGLANG_PLATFORM_PLUGIN": "example_oot=compiling_platform:Compiling",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])),
    }
    arguments = {"model_path": str(checkpoint), "page_size": 16, "disable_cuda_graph": True}
    with EngineProcess("example_oot", arguments, environment=environment, seconds=800) as engine:
        replies = engine.call("generate", input_ids=ASKED, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
    assert [reply["output_ids"] for reply in replies] == reference.greedy(checkpoint, ASKED, NEW_TOKENS)
    # Counted while it is traced, and not by what comes of that: fewer than the norms, which are not compiled.
    assert 0 < counts["example_oot.fused_ops.SiluAndMul"] < counts["example_oot.fused_ops.RMSNorm"] / 4
