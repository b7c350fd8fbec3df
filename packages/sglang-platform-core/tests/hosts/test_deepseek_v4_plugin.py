"""`docs/examples/deepseek-v4-plugin` in a running SGLang: the scheduler's counts, and the tokens of a plain run.

SGLang 0.5.23 does not build its own DeepSeek-V4 off CUDA, so the model is DeepSeek-V3-shaped; the last test holds the
place that stops V4.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tomllib")

import torch
from installed_example import installed
from safetensors.torch import load_file, save_file

from sglang_platform.conformance.host import processes, reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

PROMPTS = reference.prompts((5, 40, 90, 150, 200, 220))  # 53 pages with their answers: more than are hot
NEW_TOKENS = 12
EXPERT_LAYERS = 3  # of 4; the first is dense
EXACT = {"DSV4_MODEL": "1", "DSV4_HOST_EXPERTS": "4", "DSV4_HOT_PAGES": "33", "DSV4_EVENTS": "1"}
SETTINGS: dict[str, Any] = {
    "page_size": 16,
    "disable_cuda_graph": True,  # the experts look at values, no graph can
    "max_running_requests": 2,
    "context_length": 256,  # 16 pages each: 33 with that of the padding
    "watchdog_timeout": 600,
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("models") / "deepseek_v3", "deepseek_v3")


def shaped(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint under the plugin's architecture, and SGLang's where the plugin is off."""
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["DeepseekV4ShapedForCausalLM", *config["architectures"]]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def in_mxfp4(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint with its experts' weights as MXFP4 has them, worked out from the specification's tables."""
    shutil.copytree(checkpoint, folder)
    for answers in folder.glob("reference-*.json"):
        answers.unlink()
    even_codes_first = (0.0, 1.0, 2.0, 4.0, 0.5, 1.5, 3.0, 6.0)
    values = torch.tensor([sign * one for one in even_codes_first for sign in (1, -1)], dtype=torch.float64)
    for file in folder.glob("*.safetensors"):
        weights = load_file(file)
        for name, weight in weights.items():
            if ".mlp.experts." in name:
                blocks = weight.double().view(-1, 32)
                scale = 2.0 ** (blocks.abs().amax(dim=1, keepdim=True).log2().floor() - 2)
                nearest = ((blocks / scale)[..., None] - values).abs().argmin(dim=-1)
                stored = (values[nearest] * scale).float().view(weight.shape)
                assert bool(
                    ((stored - weight).view(-1, 32).abs() <= blocks.abs().amax(1, keepdim=True) / 4).all()
                )
                weights[name] = stored
        save_file(weights, file, metadata={"format": "pt"})
    return folder


def served(
    folder: Path, checkpoint: Path, switches: dict[str, str]
) -> tuple[list[list[int]], dict[str, int], Any]:
    """Tokens, the scheduler's counts, and what its report says of the registries."""
    environment = {"PYTHONPATH": installed(folder / "site", "deepseek-v4-plugin"), **switches}
    settings = {"model_path": str(shaped(checkpoint, folder / "shaped")), **SETTINGS}
    with EngineProcess("example_oot", settings, environment=environment, report_dir=folder) as engine:
        rounds = [engine.call("generate", input_ids=PROMPTS, max_new_tokens=NEW_TOKENS) for _ in range(2)]
        engine.call("flush_cache")
        counts = engine.counters()
        reports = processes.read(folder)
    scheduler = next(r for r in reports if any("Scheduler.__init__" in h["target"] for h in r["hooks"]))
    tokens = [[reply["output_ids"] for reply in replies] for replies in rounds]
    assert tokens[0] == tokens[1]  # the second time with prefixes from the cache
    return tokens[0], counts, scheduler["registries"]


def test_the_exact_parts_serve_the_tokens_of_a_plain_run(tmp_path: Path, checkpoint: Path) -> None:
    tokens, counts, registries = served(tmp_path, checkpoint, EXACT)
    assert tokens == reference.greedy(checkpoint, PROMPTS, NEW_TOKENS)
    count = {
        name.removeprefix("deepseek_v4."): n for name, n in counts.items() if name.startswith("deepseek_v4.")
    }
    assert count["split.layers"] == EXPERT_LAYERS
    assert count["split.calls"] > 0
    assert count["split.experts_brought"] > 0
    assert count.get("mxfp4.layers", 0) == count["split.around_mxfp4"] == 0  # off
    assert count["hierarchical_pool.pages_to_host"] > 0
    assert count["hierarchical_pool.pages_from_host"] > 0
    assert counts.get("example_oot.kv_pool.stores", 0) == 0  # the plugin's pool took the platform's place
    assert counts["example_oot.attention.decodes"] > 0  # and the device's kernels read it
    assert [one["id"] for one in registries["quant_wrappers"]] == ["v4_expert_split"]


def test_all_registries_with_experts_in_mxfp4(tmp_path: Path, checkpoint: Path) -> None:
    """The tokens are those of a checkpoint whose experts have MXFP4's values, each within a quarter of its block's
    largest: the error of the type, and no other."""
    tokens, counts, registries = served(
        tmp_path, checkpoint, {**EXACT, "DSV4_MXFP4": "1", "DSV4_TOKEN_POOL": "1"}
    )
    rounded = in_mxfp4(checkpoint, tmp_path / "rounded")
    assert tokens == reference.greedy(rounded, PROMPTS, NEW_TOKENS)
    assert tokens != reference.greedy(checkpoint, PROMPTS, NEW_TOKENS)  # or nothing was rounded
    count = {
        name.removeprefix("deepseek_v4."): n for name, n in counts.items() if name.startswith("deepseek_v4.")
    }
    assert count["mxfp4.layers"] == count["split.layers"] == count["split.around_mxfp4"] == EXPERT_LAYERS
    assert count["mxfp4.calls"] == count["split.calls"] > 0
    assert (
        count["mxfp4.bytes"] == EXPERT_LAYERS * 8 * 3 * 256 * 128 * 17 // 32
    )  # 4 bits a number, 8 for each 32
    assert count["token_pool.rows"] > 0
    assert count["coordinator.requests"] == count["coordinator.finished"] == 2 * len(PROMPTS)
    assert count["coordinator.batches"] > 0
    assert count["events.model_loaded"] == count["events.cache_flushed"] == 1
    assert count["events.forward_begin"] == count["events.forward_end"] > 0

    ids = {name: [one["id"] for one in entries] for name, entries in registries.items() if name != "answers"}
    assert ids == {
        "quant_wrappers": ["v4_mxfp4", "v4_expert_split"],
        "kv_pool_factories": ["v4_hierarchical_pool", "v4_token_pool"],
        "host_pool_factories": [],
        "request_coordinators": ["v4_pages"],
        "lifecycle_listeners": ["v4_page_follower"],
        "model_architectures": ["DeepseekV4ShapedForCausalLM"],
    }
    assert all("deepseek_v4_plugin" in one["plugin"] for name in ids for one in registries[name])
