"""Places that take CUDA for granted are found with their standing; what only looks like one is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.devtools.assumptions.site import Assumption
from sglang_platform.devtools.assumptions.survey import Survey, survey_of
from sglang_platform.devtools.source.opening import open_host

HOST = Path(__file__).parent / "host"


@pytest.fixture(scope="module")
def survey() -> Survey:
    return survey_of(open_host(str(HOST), {"sglang"}))


def of(survey: Survey, module: str) -> list[Assumption]:
    return [one for one in survey.sites if one.module == f"sglang.srt.{module}"]


def short(survey: Survey, module: str) -> set[tuple[str, str, str, str]]:
    return {(one.function, one.kind, one.form, one.standing) for one in of(survey, module)}


def test_torch_cuda_by_all_its_names(survey: Survey) -> None:
    assert short(survey, "layers.streams") == {
        ("by_its_name", "torch.cuda", "call", "open"),
        ("by_aliases", "torch.cuda", "call", "open"),
        ("literals", "torch.cuda", "literal", "open"),
        ("Op.forward_cuda", "torch.cuda", "call", "gated"),
    }
    lines = [one.text for one in of(survey, "layers.streams") if one.function == "by_aliases"]
    assert lines == ["card.empty_cache()", "cuda.Event()", 'with nvtx.range("a"):', "return Stream()"]
    literals = [one.text for one in of(survey, "layers.streams") if one.form == "literal"]
    assert len(literals) == 3


def test_launches_with_a_gate_and_without(survey: Survey) -> None:
    launches = {
        one.function: (one.standing, one.by) for one in of(survey, "layers.kernels") if one.kind == "triton"
    }
    assert launches == {
        "scale": ("open", ""),
        "scale_where_asked": ("gated", "here"),
        "scale_if_triton": ("gated", "here"),
        "only_from_a_gate": ("open", ""),
    }
    assert not any(one.kind == "torch.cuda" for one in of(survey, "layers.kernels"))


def test_questions_for_cuda_and_false_friends(survey: Survey) -> None:
    found = {(one.function, one.form, one.line) for one in of(survey, "layers.devices") if one.kind == "gate"}
    assert {(function, form) for function, form, _ in found} == {
        ("", "list"),
        ("is_cuda", "test"),
        ("by_type", "test"),
        ("by_tensor", "test"),
    }
    assert len([1 for function, _, _ in found if function == "by_type"]) == 2
    calls = {
        (one.function, one.form, one.standing)
        for one in of(survey, "layers.devices")
        if one.kind == "torch.cuda"
    }
    assert calls == {("by_tensor", "move", "gated"), ("choose", "call", "open")}


def test_imports_by_where_they_stand(survey: Survey) -> None:
    imports = {
        one.text: (one.form, one.standing, one.asked)
        for one in of(survey, "layers.imports")
        if one.kind == "import"
    }
    assert imports == {
        "import sgl_kernel": ("module", "open", ""),
        "import flashinfer": ("module", "gated", "try"),
        "from deep_gemm import gemm": ("module", "gated", "is_cuda()"),
        "from cutlass import cute": ("function", "open", ""),
    }


def test_a_feature_is_the_folder(survey: Survey) -> None:
    assert {one.feature for one in of(survey, "lora.adapters")} == {"lora"}
    assert {one.feature for one in of(survey, "layers.streams")} == {"layers"}
