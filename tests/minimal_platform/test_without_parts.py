"""What a platform without parts of its own serves, as `docs/without_parts.md` says."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from installed_plugin import Edit, InstalledPlugin

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess
from sglang_platform.conformance.host.features.record import all_features
from sglang_platform.conformance.host.features.router import PYTHON_VARIABLE

pytestmark = pytest.mark.host

_HERE = Path(__file__).parent
_PAGE = (_HERE.parents[1] / "docs" / "without_parts.md").read_text(encoding="utf-8")
MODELS = re.findall(r"^\| `(\w+)` \| .+ \| served \|$", _PAGE, re.MULTILINE)
FEATURES = dict(
    re.findall(r"^\| ([^|`]+) \| (served|refused|needs graphs)(?:: [^|]+)? \|$", _PAGE, re.MULTILINE)
)
_STATES = {"served": "passed", "refused": "refused", "needs graphs": "not_applicable"}
_BY_TITLE = {feature.title: feature.name for feature in all_features()}
_LENGTHS = (1, 17, 90, 300)
"""Shorter and longer than the windows of these models (64 tokens)."""

_MORE = """\
    capabilities = PlatformCapabilities(graph_capture=True)

    def get_graph_runner_cls(self) -> type:
        from sglang_platform.core.portable.torch.graph_runner import TorchGraphRunner

        return TorchGraphRunner

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        return algorithm in ("NGRAM", "STANDALONE", "EAGLE")

"""


@pytest.fixture
def plugin(tmp_path: Path) -> InstalledPlugin:
    return InstalledPlugin("minimal", tmp_path, _HERE)


def test_the_page_names_every_feature() -> None:
    assert set(FEATURES) == set(_BY_TITLE)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("level", ["memory", "kernels"])
def test_the_suite_passes_on_cores_parts(level: str, plugin: InstalledPlugin, tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(plugin.sources), str(_HERE), os.environ.get("PYTHONPATH")]))
    plugin.run(
        "-W", "ignore", "-m", "sglang_platform.conformance", "--host", "none", "--level", level,
        "--platform", "core_parts=core_parts:CorePartsPlatform", "--report", str(tmp_path / "report"),
        PYTHONPATH=path,
    )  # fmt: skip
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    states = [one["status"] for one in report["outcomes"] if one["level"] == level]
    assert "passed" in states
    assert set(states) <= {"passed", "not_applicable", "not_run"}


def check_tokens(model: str, plugin: InstalledPlugin, **arguments: int) -> None:
    folder = Path(os.environ.get("SGLANG_PLATFORM_TEST_MODELS", "models")).resolve()
    checkpoint, prompts = make_checkpoint(folder / model, model), reference.prompts(_LENGTHS)
    expected = reference.greedy(checkpoint, prompts, 16)
    arguments = {"page_size": 16, "chunked_prefill_size": 128, **arguments}
    path = os.pathsep.join(filter(None, [str(plugin.sources), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with EngineProcess(
        "minimal", {"model_path": str(checkpoint), **arguments}, environment=environment
    ) as engine:
        replies = engine.call("generate", input_ids=prompts, max_new_tokens=16)
    assert [reply["output_ids"] for reply in replies] == expected


@pytest.mark.engine
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=() if name == "deepseek_v3" else pytest.mark.long) for name in MODELS]
)
def test_a_model_gets_the_tokens_of_transformers(model: str, plugin: InstalledPlugin) -> None:
    check_tokens(model, plugin)


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("model", ["deepseek_v3", "gpt_oss"])
def test_two_ranks_share_the_experts(model: str, plugin: InstalledPlugin) -> None:
    check_tokens(model, plugin, tp_size=2, ep_size=2)


def state_of(title: str, plugin: InstalledPlugin, folder: Path) -> str:
    """passed, failed, refused or not_applicable; a feature that cannot run here skips the test."""
    name = f"features.{_BY_TITLE[title]}"
    router = {one: os.environ[one] for one in (PYTHON_VARIABLE,) if one in os.environ}
    plugin.run(
        "-W", "ignore", "-m", "sglang_platform.conformance", "--platform", "minimal", "--host", "sglang",
        "--check", name, "--report", str(folder / "report"), **router,
    )  # fmt: skip
    report = json.loads((folder / "report" / "report.json").read_text())
    (outcome,) = (one for one in report["outcomes"] if one["id"] == name)
    why = outcome["why"] or ""
    if why.startswith("refused before launch: "):
        return "refused"
    if outcome["status"] == "not_run":
        pytest.skip(why)
    return str(outcome["status"])


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("title", FEATURES)
def test_a_feature_is_served_or_refused_as_the_page_says(
    title: str, plugin: InstalledPlugin, tmp_path: Path
) -> None:
    assert state_of(title, plugin, tmp_path) == _STATES[FEATURES[title]]


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "title",
    [
        "n-gram drafts, trees", "n-gram drafts, sampled requests", "a draft model (STANDALONE), chains",
        "EAGLE, trees", "a mixture of experts (Qwen3-MoE)",
    ],
)  # fmt: skip
def test_drafts_and_graphs_that_are_declared_are_served_on_cores_attention(
    title: str, plugin: InstalledPlugin, tmp_path: Path
) -> None:
    file, end = "sglang_minimal/platform.py", "class MinimalPlatform(SRTPlatform, MinimalDeviceMixin):\n"
    plugin.edit(
        Edit(file, "import PlatformEnum,", "import PlatformCapabilities, PlatformEnum,"),
        Edit(file, end, end + _MORE),
    )
    assert state_of(title, plugin, tmp_path) == "passed"
