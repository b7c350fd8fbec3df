"""The worked plugins of `docs/examples` in a running SGLang; what they do is read back from the scheduler process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("tomllib")

from installed_example import EXAMPLES, installed

from sglang_platform.conformance.host import processes, reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

PROMPTS = reference.prompts((5, 40, 90))
NEW_TOKENS = 12


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def arguments(checkpoint: Path) -> dict[str, object]:
    return {
        "model_path": str(checkpoint),
        "page_size": 16,
        "disable_cuda_graph": False,
        "torch_compile_max_bs": 4,
        "watchdog_timeout": 600,
    }


def test_all_four_registries_in_one_engine(tmp_path: Path, models: Path) -> None:
    checkpoint = make_checkpoint(models / "qwen3_moe", "qwen3_moe")
    environment = {
        "PYTHONPATH": installed(tmp_path / "site", "registries-plugin"),
        "REGISTRIES_PLUGIN": "1",
        "SGLANG_PLATFORM_COORDINATORS": "admission_counter",
        "SGLANG_EXAMPLE_OOT_DEVICE": "cpu",
    }
    settings = {
        **arguments(checkpoint),
        "disable_cuda_graph": True,
    }  # the experts look at values, no graph can
    with EngineProcess("example_oot", settings, environment=environment, report_dir=tmp_path) as engine:
        engine.call("generate", input_ids=PROMPTS, max_new_tokens=NEW_TOKENS)
        engine.call("flush_cache")
        counts = engine.counters()
        reports = processes.read(tmp_path)
        lifecycles = {path: path.read_text() for path in tmp_path.glob("lifecycle-*.jsonl")}
    layers = 4
    assert counts["registries_plugin.int8_experts.layers"] == layers
    assert counts["registries_plugin.call_log.around_int8"] == layers  # 20 goes around 10
    assert counts["registries_plugin.int8_experts.calls"] == counts["registries_plugin.call_log.calls"] > 0
    assert counts["registries_plugin.pool.rows"] > 0
    assert counts.get("example_oot.kv_pool.stores", 0) == 0  # the registered pool took the platform's place
    assert counts["registries_plugin.admission.requests"] == len(PROMPTS)
    assert counts["registries_plugin.admission.batches"] > 0

    scheduler = next(r for r in reports if any("Scheduler.__init__" in h["target"] for h in r["hooks"]))
    assert [one["id"] for one in scheduler["registries"]["quant_wrappers"]] == ["int8_experts", "call_log"]
    assert "registries_plugin" in scheduler["registries"]["kv_pool_factories"][0]["plugin"]
    assert len(lifecycles) == 1, "only the scheduler runs the model"
    events = [json.loads(line) for line in next(iter(lifecycles.values())).splitlines()]
    names = [event["event"] for event in events]
    assert names[0] == "model_loaded"
    assert names.count("request_admitted") == len(PROMPTS)
    assert {"forward", "cache_flushed"} <= set(names)
    admitted = [event["prompt_tokens"] for event in events if event["event"] == "request_admitted"]
    assert sorted(admitted) == sorted(map(len, PROMPTS))


def test_a_platform_in_older_names_serves_with_its_own_parts(tmp_path: Path, models: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    expected = reference.greedy(checkpoint, PROMPTS, NEW_TOKENS)
    environment = {
        "PYTHONPATH": installed(tmp_path / "site", "older-plugin"),
        "PYTHONWARNINGS": "default::DeprecationWarning",
    }
    with EngineProcess(
        "older_plugin", arguments(checkpoint), environment=environment, report_dir=tmp_path
    ) as engine:
        replies = engine.call("generate", input_ids=PROMPTS, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
        reports = processes.read(tmp_path)
        output = engine.output()
    assert [reply["output_ids"] for reply in replies] == expected
    for part in ("kv_pool.stores", "paged_allocator.decodes", "attention.decodes", "graph.replays"):
        assert counts[f"example_oot.{part}"] > 0, part
    assert counts["host.kv_pool.stores"] == counts["host.graph.replays"] == 0
    assert counts["older_plugin.supports_fp8.calls"] > 0  # read as core's capability
    limits = {limit["name"]: limit["why"] for limit in reports[0]["limits"]}
    assert "has no reader" in limits["capabilities.fp8"]
    for older, today in (
        ("get_mha_kv_pool_cls", "get_kv_pool_cls(kind='mha')"),
        ("support_cuda_graph", "capabilities.graph_capture"),
        ("supports_fp8", "capabilities.fp8"),
    ):
        assert f"OlderPlatform.{older}() is an older name" in output
        assert f"It is served as {today}" in output


MIGRATING = EXAMPLES / "migrating"
DEVICE = {"EMBER_VISIBLE_DEVICES": "0"}


@pytest.fixture(scope="module")
def expected(models: Path) -> tuple[Path, list[list[int]]]:
    checkpoint = make_checkpoint(models / "llama", "llama")
    return checkpoint, reference.greedy(checkpoint, PROMPTS, NEW_TOKENS)


@pytest.mark.long
def test_a_plugin_on_sglangs_classes_serves(tmp_path: Path, expected: tuple[Path, list[list[int]]]) -> None:
    """`docs/examples/migrating/before`. On device type "cpu" SGLang takes its own attention unless one is named."""
    settings = {
        **arguments(expected[0]),
        "disable_cuda_graph": True,
        "attention_backend": "ember",
    }
    environment = {"PYTHONPATH": installed(tmp_path / "site", "migrating/before"), **DEVICE}
    with EngineProcess("ember", settings, environment=environment, report_dir=tmp_path) as engine:
        replies = engine.call("generate", input_ids=PROMPTS, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
        settled = engine.call("server_args", names=["attention_backend", "max_running_requests"])
        output = engine.output()
    assert [reply["output_ids"] for reply in replies] == expected[1]
    assert settled == {"attention_backend": "ember", "max_running_requests": 8}
    assert counts.get("host.attention.calls", 0) == counts.get("host.kv_pool.stores", 0) == 0
    assert "Ember runs its first batch" in output  # its hook on SGLang's registry


def test_the_same_plugin_on_core_serves_the_same_tokens(
    tmp_path: Path, expected: tuple[Path, list[list[int]]]
) -> None:
    """`docs/examples/migrating/after`: no attention named, no SGLang imported, and each part counts what it does."""
    settings = {**arguments(expected[0]), "disable_cuda_graph": True}
    environment = {"PYTHONPATH": installed(tmp_path / "site", "migrating/after"), **DEVICE}
    with EngineProcess("ember", settings, environment=environment, report_dir=tmp_path) as engine:
        replies = engine.call("generate", input_ids=PROMPTS, max_new_tokens=NEW_TOKENS)
        counts = engine.counters()
        settled = engine.call("server_args", names=["attention_backend", "max_running_requests"])
    assert [reply["output_ids"] for reply in replies] == expected[1]
    assert settled == {"attention_backend": "ember", "max_running_requests": 8}
    for part in ("kv_pool.stores", "attention.calls", "fused_ops.calls", "steps"):
        assert counts[f"ember.{part}"] > 0, part
    for part in ("attention.calls", "kv_pool.stores", "paged_allocator.calls"):
        assert counts.get(f"host.{part}", 0) == 0, part


def test_the_move_leaves_the_kernels_and_ends_every_import_of_sglang() -> None:
    before, after = (MIGRATING / which / "src" / "sglang_ember" for which in ("before", "after"))
    assert (before / "kernels.py").read_text() == (after / "kernels.py").read_text()
    assert [path.name for path in after.glob("*.py") if "import sglang." in path.read_text()] == []
    assert [path.name for path in after.glob("*.py") if "from sglang." in path.read_text()] == []
    assert {path.name for path in before.glob("*.py") if "from sglang." in path.read_text()} == {
        "attention.py", "compat.py", "plugin.py", "pools.py",
    }  # fmt: skip
