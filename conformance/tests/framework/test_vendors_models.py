"""`--model config.json`: the shapes of a vendor's own model reach the cases; a file that is none is told in a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import conformance

from sglang_platform.conformance.check import registered
from sglang_platform.conformance.fixtures.model_config import shapes_of
from sglang_platform.conformance.served_shape import ServedShape
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.errors import ConfigurationError

pytestmark = pytest.mark.usefixtures("chosen_here")

MODELS = Path(__file__).parent / "models"
ODD = str(MODELS / "acme-odd.json")
SERVED = "kernels.served_models_attention"


def _shapes(name: str) -> list[ServedShape]:
    return shapes_of(MODELS / f"{name}.json")


def test_a_dense_model() -> None:
    (shape,) = _shapes("llama-3.1-8b")
    assert (shape.heads, shape.dims, shape.hidden, shape.kind) == ((32, 8), (128, 128), 4096, "mha")
    assert (shape.grouping, shape.features, shape.inner, shape.context) == ("gqa", {}, 14336, 131072)
    assert (shape.rope["theta"], shape.rope["scaling"]["rope_type"]) == (500000.0, "llama3")


def test_layers_with_and_without_a_window_are_two_shapes() -> None:
    windowed, full = _shapes("gemma-2-9b")
    assert windowed.features == {"logit_cap": 50.0, "sliding_window": 4095}  # without the token itself
    assert full.features == {"logit_cap": 50.0}
    windowed, full = _shapes("gpt-oss-20b")
    assert windowed.features == {"sinks": True, "sliding_window": 127}
    assert full.features == {"sinks": True}
    assert (full.experts, full.experts_per_token) == (32, 4)


def test_experts_and_a_window_that_is_switched_off() -> None:
    (shape,) = _shapes("qwen3-moe")
    assert shape.features == {}
    assert (shape.experts, shape.experts_per_token, shape.expert_inner) == (128, 8, 768)


def test_latent_attention() -> None:
    (shape,) = _shapes("deepseek-v3")
    assert (shape.kind, shape.heads, shape.dims, shape.grouping) == ("mla", (128, 1), (512, 64), "mla")
    assert (shape.experts, shape.expert_inner) == (256, 2048)


def test_the_language_model_inside_another() -> None:
    (shape,) = _shapes("qwen2.5-vl-7b")
    assert (shape.heads, shape.dims, shape.hidden) == ((28, 4), (128, 128), 3584)


def _cases(check: str, *models: str) -> list[Any]:
    subject = Subject(
        "reference",
        location="sglang_platform.conformance.reference.platform:ReferencePlatform",
        models=[str(MODELS / f"{name}.json") for name in models],
    )
    found = registered()[check]
    assert found.cases is not None
    return list(found.cases(subject, subject.rng()))


def _of_op(op: str, *models: str) -> list[Any]:
    return [one for one in _cases("kernels.op_values", *models) if one.op == op]


def test_its_shapes_reach_the_cases_of_attention_norms_and_experts() -> None:
    own = [one for one in _cases(SERVED, "acme-odd") if (one.heads, one.dims) == ((13, 1), (72, 72))]
    assert {one.mode for one in own} == {"decode", "extend"}
    assert not [one for one in _cases(SERVED) if one.heads == (13, 1)]
    assert {936, 1111} <= {one.width for one in _of_op("layernorm.rms_norm", "acme-odd")}
    assert not {936, 1111} & {one.width for one in _of_op("layernorm.rms_norm")}
    assert len(_of_op("moe.experts", "qwen3-moe")) > len(_of_op("moe.experts"))
    assert len(_of_op("moe.experts", "llama-3.1-8b")) == len(_of_op("moe.experts"))


@pytest.mark.long
def test_a_defect_at_the_vendors_shape_alone_is_found_with_its_model(tmp_path: Path) -> None:
    words = ["--platform", "odd=odd_platforms:WrongAtOneShape", "--check", SERVED]
    without = conformance(*words, folder=tmp_path)
    assert (without.returncode, "incomplete" in without.stdout) == (0, True), without.stdout
    run = conformance(*words, "--model", ODD, "--json", folder=tmp_path)
    document = json.loads(run.stdout)
    (outcome,) = document["outcomes"]
    assert outcome["status"] == "failed"
    assert all(one["case"]["heads"] == [13, 1] for one in outcome["failing"])
    assert f"--model {ODD}" in outcome["rerun"]
    (model,) = document["run"]["models"]
    assert (model["path"], [one["name"] for one in model["shapes"]]) == (ODD, ["acme/odd"])
    assert len(model["digest"]) == 64


@pytest.mark.long
def test_what_is_not_declared_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "conformance.toml").write_text("[expected_failures]\n")
    words = ["--platform", "odd=odd_platforms:NoWindows", "--check", SERVED, "--model"]
    run = conformance(*words, str(MODELS / "gemma-2-9b.json"), folder=tmp_path)
    assert "attention is not tried in" in run.stdout
    assert "sliding_window not in attention_features" in run.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be read"),
        ("[]", "it is no JSON object"),
        ("{}", "it has no 'num_attention_heads'"),
        ('{"model_type": "vit", "image_size": 224, "hidden_size": 768}', "it has no 'num_attention_heads'"),
        ('{"num_attention_heads": 0, "hidden_size": 64}', "it has no heads"),
        ('{"num_attention_heads": "many", "hidden_size": 64}', "invalid literal"),
        ('{"num_attention_heads": [8], "hidden_size": 64}', "list"),
        ('{"num_attention_heads": 8, "hidden_size": 64, "num_key_value_heads": 3}', "3 key heads"),
        ('{"num_attention_heads": 8, "hidden_size": 64, "head_dim": -1}', "-1"),
        (
            '{"num_attention_heads": 8, "hidden_size": 64, "kv_lora_rank": 512}',
            "it has no 'qk_rope_head_dim'",
        ),
    ],
)
def test_what_is_no_configuration_is_told_in_a_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        shapes_of(path)
    said = str(refused.value)
    assert why in said
    assert f"--model {path}" in said


def test_the_command_refuses_it_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    for name in ("broken.json", "nowhere.json"):
        words = ["--platform", "odd=odd_platforms:Talks", "--model", name, "--report", "out"]
        run = conformance(*words, folder=tmp_path)
        assert run.returncode == 2, run.stdout
        assert f"--model {name} cannot be read" in run.stderr
        assert "Traceback" not in run.stderr
        assert not (tmp_path / "out").exists()
