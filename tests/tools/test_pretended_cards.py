"""SGLang on cards that this machine does not have: with our packages it imports and launches without its libraries."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tools.pretended_cards.page import SETUPS, Setup, page, surveyed

PAGE = Path(__file__).parents[2] / "docs" / "pretended_cards.md"
CUDA = ("sgl_kernel", "flashinfer", "deep_gemm")

pytestmark = [
    pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed"),
    pytest.mark.timeout(600),
]

survey = cache(surveyed)


def launch(setup: Setup, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = survey(setup)["launches"][name]
    return answer


@pytest.mark.parametrize("architecture", ["sm_90", "gfx942"])
def test_sglang_imports_and_launches_without_its_libraries(architecture: str) -> None:
    light = Setup(architecture, True, ())
    assert not [why for why in survey(light)["imports"].values() if why]
    assert survey(light)["parts"]["ops"] == "ours"
    for asked in ("", "--kv-cache-dtype fp8_e4m3", "--quantization fp8", "--attention-backend triton"):
        assert launch(light, asked) == {
            "attention_backend": "triton",
            "sampling_backend": "pytorch",
            "page_size": 1,
        }, asked


@pytest.mark.parametrize("architecture", ["sm_90", "gfx942"])
@pytest.mark.parametrize(
    ("asked", "library"),
    [
        ("--attention-backend fa3", "sgl_kernel"),
        ("--attention-backend flashinfer", "flashinfer"),
        ("--attention-backend aiter", "aiter"),
        ("--decode-attention-backend flashmla", "sgl_kernel"),
        ("--sampling-backend flashinfer", "flashinfer"),
        ("--moe-runner-backend flashinfer_cutlass", "flashinfer"),
        ("--moe-runner-backend cutlass", "sgl_kernel"),
        ("--enable-hierarchical-cache", "sgl_kernel"),
    ],
)
def test_what_needs_a_missing_library_is_refused_by_name(architecture: str, asked: str, library: str) -> None:
    refused = launch(Setup(architecture, True, ()), asked)["refused"]
    assert refused.startswith(f"{asked} is not served: {library} is not installed"), refused
    assert "plugin:" in refused
    assert "fix:" in refused


def test_on_a_stock_installation_every_decision_is_sglangs_own() -> None:
    ours, alone = survey(Setup("sm_90", True, CUDA)), survey(Setup("sm_90", False, CUDA))
    different = [name for name, found in alone["launches"].items() if ours["launches"][name] != found]
    assert different == ["--attention-backend aiter"], "AITER is not for this card: it is refused"
    assert ours["imports"] == alone["imports"]
    assert ours["parts"]["ops"] == "SGLang's"


@pytest.mark.parametrize("libraries", [CUDA, ()])
def test_a_start_logs_only_what_the_package_changes(libraries: tuple[str, ...]) -> None:
    expected = ["platform: cuda at ", "cuda: allocator is its own: "]
    if not libraries:
        expected = [expected[0], "sgl_kernel is a stub", expected[1], "cuda: ops is its own: "]
    log = survey(Setup("sm_90", True, libraries))["log"]
    assert [line[: len(start)] for line, start in zip(log, expected, strict=True)] == expected, log


@pytest.mark.skipif("SGLANG_PLATFORM_LONG" not in os.environ, reason="a process for each set-up: nox -s long")
def test_the_page_is_what_the_cards_say_now() -> None:
    assert page({setup: survey(setup) for setup in SETUPS}) == PAGE.read_text(), (
        "docs/pretended_cards.md is stale: python -m tools.pretended_cards --output docs/pretended_cards.md"
    )
