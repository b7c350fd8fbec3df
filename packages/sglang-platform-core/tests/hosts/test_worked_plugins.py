"""The worked plugins of `docs/examples` in a running SGLang; what they do is read back from the scheduler process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")

from sglang_platform.conformance.host import processes, reference  # noqa: E402
from sglang_platform.conformance.host.checkpoints import make_checkpoint  # noqa: E402
from sglang_platform.conformance.host.engine import EngineProcess  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
PROMPTS = reference.prompts((5, 40, 90))
NEW_TOKENS = 12


def installed(folder: Path, name: str) -> str:
    """A PYTHONPATH on which the example is installed: its sources, and its metadata as pip would write it."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups)
    )
    return os.pathsep.join([str(folder), str(EXAMPLES / name / "src"), os.environ.get("PYTHONPATH", "")])


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
