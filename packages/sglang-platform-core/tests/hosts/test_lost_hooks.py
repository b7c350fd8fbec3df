"""A release of SGLang that renames what the adapter hooks: served with one warning, or refused by name."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sglang_platform.core.errors import HookTargetError, LaunchRefused
from sglang_platform.core.hooks.registry import HookRegistry, HookType, plugin_source
from sglang_platform.core.sglang import registration
from sglang_platform.core.sglang.registration import Feature, LaunchSettings, check_launch, losing_fields
from sglang_platform.core.sglang.start.plugin_loop import core_origin, refusal
from warm_interpreter import run_warm

PROGRAM = Path(__file__).parent / "programs" / "lose_each_target.py"

REQUIRED = {
    "multiprocessing.process.BaseProcess.__init__",
    "sglang.kernels.fused_op.BaseFusedOp._resolve_forward_method",
    "sglang.srt.arg_groups.pipeline.run_resolution_pipeline",
    "sglang.srt.distributed.bootstrap.init_parallel_runtime",
    "sglang.srt.managers.scheduler.Scheduler.run_batch",
    "sglang.srt.model_executor.model_runner.ModelRunner.__init__",
}
"""What the example device cannot be served without, or not right."""

OF_EXAMPLE = {
    f"sglang.srt.layers.attention.mamba.causal_conv1d.causal_conv1d_{call}" for call in ("fn", "update")
}
"""Targets of the example itself, for which core's kernels serve as well."""

FEATURES = {
    "--disaggregation-mode", "--enable-dp-attention", "--enable-hierarchical-cache", "--enable-lora",
    "--enable-memory-saver", "--enable-memory-saver or --disaggregation-mode", "--speculative-algorithm",
    "a checkpoint with quantised weights", "a model whose layers keep a state per request",
    "a model with capped logits (Gemma-2)", "a model with gated shared experts (Qwen2-MoE)",
    "an architecture of register_model()",
}  # fmt: skip


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By target, what becomes of a launch on a release that has renamed it; under "" where nothing is renamed."""
    environment = {
        **os.environ,
        "SGLANG_PLATFORM": "example_oot",
        "SGLANG_PLATFORM_REPORT_DIR": str(tmp_path_factory.mktemp("counted")),
    }
    run = run_warm(PROGRAM, timeout=270, environment=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    answers: dict[str, dict[str, Any]] = json.loads(run.stdout.strip().splitlines()[-1])
    return answers


@pytest.mark.host
@pytest.mark.timeout(300)
def test_the_installed_release_takes_every_hook_and_nothing_is_said(
    endings: dict[str, dict[str, Any]],
) -> None:
    healthy = endings[""]
    assert healthy["ending"] == "served"
    assert set(healthy["states"]) == {"applied"}
    assert healthy["warnings"] == []
    assert healthy["plain"] is None
    assert healthy["used"] is None


@pytest.mark.host
@pytest.mark.timeout(300)
def test_each_renamed_target_ends_as_declared(endings: dict[str, dict[str, Any]]) -> None:
    version = registration.facts().version
    renamed = {key: ending for key, ending in endings.items() if key}
    assert len(renamed) > 85
    assert {key for key, ending in renamed.items() if ending["ending"] == "refused"} == REQUIRED
    features = set()
    for key, ending in renamed.items():
        assert set(ending["states"]) == {"failed"}, key
        if key in REQUIRED:
            assert key.rpartition(".")[2] in ending["said"]
            assert "without it" in ending["said"], key
            continue
        assert ending["plain"] is None, key
        told, used = ending["warnings"], ending["used"]
        if used is not None:
            features.add(used.partition(" is not served")[0])
            assert f"is not served on SGLang {version}" in used
            assert key.rpartition(".")[2] in used or key.rpartition(".")[0].rpartition(".")[2] in used
        if used is None or told:
            assert len(told) == len(set(told)) >= 1, key
            begins = (
                "The REPLACE hook sglang_platform.example_oot"
                if key in OF_EXAMPLE
                else f"On SGLang {version} a"
            )
            assert all(line.startswith(begins) for line in told), told
    assert features == FEATURES


@pytest.mark.host
@pytest.mark.timeout(300)
def test_each_repair_is_lost_with_one_warning_that_names_it(endings: dict[str, dict[str, Any]]) -> None:
    lost = {
        key: e["warnings"]
        for key, e in endings.items()
        if any("hook of repairs/" in w for w in e["warnings"])
    }
    assert len(lost) >= 20
    for key, warnings in lost.items():
        assert len(warnings) == 1, key
        assert endings[key]["used"] is None, "a repair is no feature that a launch asks for"
    names = {warnings[0].partition("repairs/")[2].partition(" ")[0] for warnings in lost.values()}
    assert names == {"absent_experts", "control_requests", "http_errors", "lost_process", "requests"}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A host with one function that is there."""
    module = ModuleType("invented_host")
    module.serve = lambda request: request  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    HookRegistry.reset()
    registration.forget()
    yield module
    HookRegistry.reset()
    registration.forget()


def soft(target: str, hook: Callable[..., Any]) -> None:
    registration.soft(target, hook, HookType.BEFORE, without="requests are not checked")


def check(request: Any) -> None:
    """A repair."""


def test_a_lost_repair_is_told_once_in_a_launch(
    host: ModuleType, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft("invented_host:answer", check)
    for _ in range(3):
        HookRegistry.apply_hooks()
    (warning,) = caplog.messages
    assert "requests are not checked" in warning
    assert registration.facts().version in warning
    assert "has no 'answer'" in warning
    (row,) = HookRegistry.report()
    assert (row["state"], row["required"]) == ("failed", False)

    HookRegistry.reset()
    registration._told.clear()
    monkeypatch.setattr(
        multiprocessing.current_process(), "_name", "started by a launcher that has warned of it"
    )
    soft("invented_host:answer", check)
    HookRegistry.apply_hooks()
    assert caplog.messages == [warning]


def test_a_repair_that_no_longer_fits_is_lost_as_well(
    host: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    host.serve = lambda request, more: request  # type: ignore[attr-defined]
    soft("invented_host:serve", check)
    HookRegistry.apply_hooks()
    assert len(caplog.messages) == 1
    assert "no place for more" in caplog.text
    assert host.serve(1, 2) == 1


def test_a_field_that_is_gone_costs_the_repair_alone(
    host: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []
    for _ in range(2):
        with losing_fields(check, without="requests are not checked"):
            seen.append(host.context_length)
    assert seen == []
    assert len(caplog.messages) == 1
    assert "context_length" in caplog.text


def test_a_feature_is_refused_where_it_is_used_whenever_it_is_lost(
    host: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    feature = Feature("--enable-lora", lambda launch: launch.arguments.enable_lora)
    used, unused = (LaunchSettings(SimpleNamespace(enable_lora=value)) for value in (True, False))
    registration.only_for(feature, "invented_host:multiply", check, HookType.BEFORE)
    registration.only_for(feature, "invented_host:divide", check, HookType.BEFORE)
    HookRegistry.apply_hooks()
    assert caplog.messages == []
    check_launch(unused)
    with pytest.raises(LaunchRefused, match=r"--enable-lora is not served") as refused:
        check_launch(used)
    assert "invented_host:multiply" in str(refused.value)
    assert "invented_host:divide" in str(refused.value)

    HookRegistry.reset()
    registration.forget()
    # A worker: the arguments are settled before a module is imported that lacks the target.
    check_launch(used)
    registration.only_for(feature, "invented_host:multiply", check, HookType.BEFORE)
    with pytest.raises(LaunchRefused, match="--enable-lora"):
        HookRegistry.apply_hooks()


def test_a_required_hook_of_cores_that_is_lost_asks_nobody_to_correct_its_name(host: ModuleType) -> None:
    with plugin_source(core_origin()):
        registration.required("invented_host:answer", check, HookType.BEFORE, without="nothing is served")
    with pytest.raises(HookTargetError) as lost:
        HookRegistry.apply_hooks()
    said = str(refusal(lost.value))
    assert f"SGLang {registration.facts().version}: 1 required hook target does not exist" in said
    assert "without it nothing is served" in said
    assert "a newer sglang-platform-core" in said
    assert "correct the name" not in said
