"""`docs/examples/deepseek-v4-plugin` in a running SGLang: the scheduler's counts, and the tokens of a plain run.

SGLang 0.5.23 builds no pool for its own DeepSeek-V4 out of tree, so the model is DeepSeek-V3-shaped.
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("tomllib")

import torch
from installed_example import EXAMPLES, installed
from safetensors.torch import load_file, save_file

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint

sys.path.insert(0, str(EXAMPLES / "deepseek-v4-plugin"))
from try_it import NEW_TOKENS, PROMPTS, Served, serve

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

EXPERT_LAYERS = 3  # of 4; the first is dense
EXACT = {"DSV4_MODEL": "1", "DSV4_HOST_EXPERTS": "4", "DSV4_HOT_PAGES": "33", "DSV4_EVENTS": "1"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("models") / "deepseek_v3", "deepseek_v3")


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
                stored = values[nearest] * scale
                assert bool(((stored - blocks).abs() <= blocks.abs().amax(dim=1, keepdim=True) / 4).all())
                weights[name] = stored.float().view(weight.shape)
        save_file(weights, file, metadata={"format": "pt"})
    return folder


def served(folder: Path, checkpoint: Path, switches: dict[str, str]) -> tuple[Served, dict[str, int]]:
    """What `try_it.py` gets, and the plugin's own counts by their short names."""
    environment = {"PYTHONPATH": installed(folder / "site", "deepseek-v4-plugin"), **switches}
    found = serve(checkpoint, folder / "run", environment)
    prefix = "deepseek_v4."
    return found, {
        name.removeprefix(prefix): n for name, n in found.counts.items() if name.startswith(prefix)
    }


@pytest.mark.long
def test_sglang_still_refuses_the_pool_of_its_own_v4_out_of_tree() -> None:
    """The place that the package's README names. Where a release has it no more, V4 itself is to be tried."""
    package = find_spec("sglang")
    assert package is not None
    assert package.origin is not None
    source = (Path(package.origin).parent / "srt" / "mem_cache" / "kv_cache_configurator.py").read_text()
    build = source[source.index("def _build_token_to_kv_pool(") :]
    assert re.search(
        r'if is_dsv4_model:\s+reject_out_of_tree_path\(\s+current_platform, subsystem="the DeepSeek-V4 KV pool"',
        build,
    )


def test_the_exact_parts_serve_the_tokens_of_a_plain_run(tmp_path: Path, checkpoint: Path) -> None:
    found, count = served(tmp_path, checkpoint, EXACT)
    assert found.tokens == reference.greedy(checkpoint, PROMPTS, NEW_TOKENS)
    assert count["split.layers"] == EXPERT_LAYERS
    assert count["split.calls"] > 0
    assert count["split.experts_brought"] > 0
    assert count.get("mxfp4.layers", 0) == count["split.around_mxfp4"] == 0  # off
    assert count["hierarchical_pool.pages_to_host"] > 0
    assert count["hierarchical_pool.pages_from_host"] > 0
    # The plugin's pool took the platform's place, and the device's kernels read it.
    assert found.counts.get("example_oot.kv_pool.stores", 0) == 0
    assert found.counts["example_oot.attention.decodes"] > 0
    assert [one["id"] for one in found.registries["quant_wrappers"]] == ["v4_expert_split"]


@pytest.mark.long
def test_all_registries_with_experts_in_mxfp4(tmp_path: Path, checkpoint: Path) -> None:
    """The tokens are those of a checkpoint whose experts have MXFP4's values, each within a quarter of its block's
    largest: the error of the type, and no other."""
    found, count = served(tmp_path, checkpoint, {**EXACT, "DSV4_MXFP4": "1", "DSV4_TOKEN_POOL": "1"})
    rounded = in_mxfp4(checkpoint, tmp_path / "rounded")
    assert found.tokens == reference.greedy(rounded, PROMPTS, NEW_TOKENS)
    assert found.tokens != reference.greedy(checkpoint, PROMPTS, NEW_TOKENS)  # or nothing was rounded
    assert count["mxfp4.layers"] == count["split.layers"] == count["split.around_mxfp4"] == EXPERT_LAYERS
    assert count["mxfp4.calls"] == count["split.calls"] > 0
    numbers = EXPERT_LAYERS * 8 * 3 * 256 * 128
    assert count["mxfp4.bytes"] == numbers // 2 + numbers // 32
    assert count["token_pool.rows"] > 0
    assert count["coordinator.requests"] == count["coordinator.finished"] == 2 * len(PROMPTS)
    assert count["coordinator.batches"] > 0
    assert count["events.model_loaded"] == count["events.cache_flushed"] == 1
    assert count["events.forward_begin"] == count["events.forward_end"] > 0

    ids = {
        name: [one["id"] for one in entries]
        for name, entries in found.registries.items()
        if name != "answers"
    }
    assert ids == {
        "quant_wrappers": ["v4_mxfp4", "v4_expert_split"],
        "kv_pool_factories": ["v4_hierarchical_pool", "v4_token_pool"],
        "host_pool_factories": [],
        "request_coordinators": ["v4_pages"],
        "lifecycle_listeners": ["coordinator v4_pages", "v4_page_follower"],
        "model_architectures": ["DeepseekV4ShapedForCausalLM"],
    }
    assert found.registries["answers"] == [
        {
            "deepseek_v4.pool": "HierarchicalPool",
            "deepseek_v4.pool_kind": "v4_token",
            "deepseek_v4.token_pool": True,
        }
    ]
    assert all("deepseek_v4_plugin" in one["plugin"] for name in ids for one in found.registries[name])
