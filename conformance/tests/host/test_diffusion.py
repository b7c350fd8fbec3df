"""SGLang's diffusion runtime makes the same picture through the example platform as on its own CPU platform."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sglang_platform.conformance.host.diffusion import GenerationFailed, Picture, difference, generate
from sglang_platform.conformance.host.diffusion_pipeline import make_pipeline
from sglang_platform.conformance.host.distribution import path_with, write_distribution

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

_WRONG_SCALE = Path(__file__).parent / "programs" / "wrong_scale.py"
"""A platform whose diffusion attention scales scores twice."""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pipeline(tmp_path_factory.mktemp("pipeline"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are kept, for people to look at: $SGLANG_PLATFORM_PICTURES or a temporary folder."""
    named = os.environ.get("SGLANG_PLATFORM_PICTURES")
    folder = Path(named).resolve() if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def in_tree(pipeline: Path, pictures: Path) -> Picture:
    return generate("cpu", pipeline, pictures / "in_tree_cpu.png")


@pytest.fixture(scope="module")
def example(pipeline: Path, pictures: Path) -> Picture:
    return generate("example_oot", pipeline, pictures / "example_oot.png", llm_platform="example_oot")


def test_the_reference_is_a_picture_of_the_hosts_own(in_tree: Picture) -> None:
    pixels = np.asarray(Image.open(in_tree.path)).astype(float)
    assert pixels.shape == (128, 128, 3)
    assert pixels.std() > 10, "a flat picture would hide every difference"
    assert in_tree.identity["class"] == "CpuPlatform"
    assert in_tree.counters["host.diffusion.attention_calls"] > 0
    assert not any(name.startswith("example_oot.") and count for name, count in in_tree.counters.items())


def test_the_same_picture_with_the_devices_attention(in_tree: Picture, example: Picture) -> None:
    assert difference(in_tree.path, example.path) <= 2
    counters = example.counters
    assert counters["host.diffusion.worker"] == 1
    assert counters["host.diffusion.denoising_steps"] == 4
    # Every layer of the transformer at every step, and those of the text encoder.
    assert (
        counters["example_oot.diffusion.attention.calls"] >= counters["host.diffusion.attention_layers"] >= 4
    )
    assert counters["host.diffusion.attention_calls"] == 0


def test_the_worker_initialises_the_backend_once(example: Picture) -> None:
    assert example.counters["example_oot.diffusion.backend_initialised"] == 1


def test_both_runtimes_are_on_one_device(example: Picture) -> None:
    assert example.identity["class"] == "ExampleOOTDiffusionPlatform"
    assert example.llm_device == {
        "device_name": example.identity["device_name"],
        "device_type": example.identity["device_type"],
    }
    assert example.identity["device_name"] == "example_oot"


@pytest.mark.long
def test_a_wrong_softmax_scale_is_another_picture(
    pipeline: Path, pictures: Path, in_tree: Picture, tmp_path: Path
) -> None:
    (tmp_path / "wrong_scale.py").write_text(_WRONG_SCALE.read_text())
    entry_point = "wrong_scale = wrong_scale:activate"
    write_distribution(tmp_path, "wrong-scale", {"sglang.multimodal_gen.platforms": entry_point})
    picture = generate(
        "wrong_scale", pipeline, pictures / "wrong_scale.png", environment={"PYTHONPATH": path_with(tmp_path)}
    )
    assert picture.counters["example_oot.diffusion.attention.calls"] > 0
    assert difference(in_tree.path, picture.path) > 20


def test_an_unknown_platform_stops_the_launch(pipeline: Path, tmp_path: Path) -> None:
    with pytest.raises(GenerationFailed, match="example_ooot"):
        generate("example_ooot", pipeline, tmp_path / "none.png")
