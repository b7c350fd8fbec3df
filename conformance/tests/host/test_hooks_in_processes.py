"""Hooks that a plugin registers with us take effect in every process of SGLang, and each process says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.host import processes
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.core import counters

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

_PLUGIN = """
from sglang_platform.core import HookRegistry, HookType, counter, plugin_hook

def load():
    for name, target in {targets!r}.items():
        HookRegistry.register(target, counting(name), HookType.BEFORE)

def counting(name):
    def before(*args, **kwargs):
        counter("my_hooks." + name).add()
    return before
"""
TARGETS = {
    "controller": "sglang.srt.managers.data_parallel_controller:DataParallelController.__init__",
    "tokenizer": "sglang.srt.managers.tokenizer_manager:TokenizerManager.__init__",
    "scheduler": "sglang.srt.managers.scheduler:Scheduler.__init__",
    "detokenizer": "sglang.srt.managers.detokenizer_manager:DetokenizerManager.__init__",
    "forward": "sglang.srt.model_executor.model_runner:ModelRunner.forward",
}


def _arguments(models: Path) -> dict[str, Any]:
    checkpoint = make_checkpoint(models / "llama", "llama")
    return {"model_path": str(checkpoint), "disable_cuda_graph": True, "page_size": 16}


def test_hooks_take_effect_in_every_process_of_two_data_parallel_ranks(
    tmp_path: Path, models: Path, installed_hooks: Any
) -> None:
    environment = {
        **installed_hooks(tmp_path / "site", _PLUGIN.format(targets=TARGETS)),
        "SGLANG_CPU_OMP_THREADS_BIND": "0|1",
    }
    report_dir = tmp_path / "report"
    with EngineProcess(
        "example_oot", {**_arguments(models), "dp_size": 2}, environment=environment, report_dir=report_dir
    ) as engine:
        engine.call("generate", input_ids=[[9, 10, 11], [12, 13]], max_new_tokens=4)
    reports = processes.read(report_dir)
    assert len(reports) == 5  # main, data-parallel controller, two schedulers, detokenizer
    counted: dict[str, int] = {}
    for counts in counters.read_all(report_dir).values():
        for name, count in counts.items():
            if name.startswith("my_hooks."):
                counted[name.removeprefix("my_hooks.")] = (
                    counted.get(name.removeprefix("my_hooks."), 0) + count
                )
    assert counted.pop("forward") == 8  # of each request one prefill and three decode steps
    assert counted == {"tokenizer": 1, "controller": 1, "scheduler": 2, "detokenizer": 1}
    for report in reports:
        ours = [hook for hook in report["hooks"] if hook["plugin"] == "my_hooks"]
        assert len(ours) == len(TARGETS)
        assert {hook["state"] for hook in ours} <= {"applied", "pending"}
        assert report["platform"]["plugin"]["name"] == "example_oot"
        assert report["warnings"] == [], "a healthy start warns of nothing"
        assert "failed" not in {hook["state"] for hook in report["hooks"]}
    everywhere = {hook["target"] for r in reports for hook in r["hooks"] if hook["state"] == "applied"}
    assert set(TARGETS.values()) <= everywhere


def test_a_required_hook_without_a_target_stops_the_launch(
    tmp_path: Path, models: Path, installed_hooks: Any
) -> None:
    wrong = {"scheduler": "sglang.srt.managers.scheduler:Scheduler.get_next_batch_to_rum"}
    environment = installed_hooks(tmp_path / "site", _PLUGIN.format(targets=wrong))
    with pytest.raises(EngineFailed) as failure:
        EngineProcess("example_oot", _arguments(models), environment=environment)
    for part in ("get_next_batch_to_rum", "get_next_batch_to_run", "my_hooks (my-hooks 1.0)"):
        assert part in str(failure.value)


@pytest.mark.long
def test_a_required_hook_that_does_not_fit_a_models_module_stops_the_launch(
    tmp_path: Path, models: Path, installed_hooks: Any
) -> None:
    """SGLang skips the modules of models that fail to import, and would serve by another implementation."""
    source = (
        "from sglang_platform.core import HookRegistry, HookType\ndef load():\n    HookRegistry.register("
        "'sglang.srt.models.llama:LlamaMLP.forward', lambda: None, HookType.REPLACE)\n"
    )
    environment = installed_hooks(tmp_path / "site", source)
    lines: list[str] = []
    with pytest.raises(EngineFailed):
        EngineProcess("example_oot", _arguments(models), environment=environment, on_line=lines.append)
    said = "\n".join(lines)
    for part in ("LlamaMLP.forward: it takes 0 positional arguments", "my_hooks (my-hooks 1.0)"):
        assert part in said
