"""Places that take CUDA for granted are found with their standing; what only looks like one is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.devtools.assumptions.carried import SeamHook, Seams
from sglang_platform.devtools.assumptions.site import ANY_LAUNCH, Assumption
from sglang_platform.devtools.assumptions.survey import Survey, survey_of
from sglang_platform.devtools.source.opening import open_host

HOST = Path(__file__).parent / "host"


def read(seams: Seams | None = None) -> Survey:
    tree = open_host(str(HOST), {"sglang"})
    return survey_of(tree, seams) if seams is not None else survey_of(tree)


@pytest.fixture(scope="module")
def survey() -> Survey:
    return read()


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
        "only_from_a_gate": ("gated", "its callers"),
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


@pytest.mark.parametrize(
    ("module", "function", "arguments"),
    [
        ("lora.manager", "Manager.__init__", ("enable_lora",)),
        ("lora.manager", "FastBackend.prepare", ("lora_backend=fast",)),
        ("managers.drafts", "verify", ("speculative_algorithm",)),
        ("managers.scheduler", "Scheduler.__init__", (ANY_LAUNCH,)),
        ("managers.scheduler", "nobody_calls", ()),
        ("models.model", "ModelOfOne.load", ("model_path",)),
    ],
)
def test_the_server_arguments_that_lead_there(
    survey: Survey, module: str, function: str, arguments: tuple[str, ...]
) -> None:
    assert [one.arguments for one in of(survey, module) if one.function == function] == [arguments]


def test_a_feature_is_the_folder(survey: Survey) -> None:
    assert {one.feature for one in of(survey, "lora.manager")} == {"lora"}
    assert {one.feature for one in of(survey, "layers.streams")} == {"layers"}


def test_what_seams_replace_hook_and_refuse() -> None:
    seams = Seams(
        "0.0",
        (
            SeamHook("drafts", "sglang.srt.managers.drafts.draft", "replace", True),
            SeamHook("start", "sglang.srt.managers.scheduler.Scheduler.__init__", "after", False),
            SeamHook("gone", "sglang.srt.managers.drafts.gone", "replace", True),
        ),
        ("sgl_kernel",),
        {"enable_lora": "refusals"},
    )
    survey = read(seams)
    told = {
        (one.function, one.standing, one.by) for one in survey.sites if one.standing not in ("open", "gated")
    }
    assert told == {
        ("verify", "carried", "drafts (its callers)"),
        ("Scheduler.__init__", "hooked", "start (after)"),
        ("Manager.__init__", "refused", "refusals"),
        ("", "carried", "stubs"),
    }
    assert [one.seam for one in survey.missing] == ["gone"]
