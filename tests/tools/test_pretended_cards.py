"""SGLang on cards that this machine does not have: with our packages it imports and launches without its libraries."""

from __future__ import annotations

import json
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tools.pretended_cards.card import CARDS
from tools.pretended_cards.page import SETUPS, Setup, page, surveyed
from warm_interpreter import run_warm

PAGE = Path(__file__).parents[2] / "docs" / "pretended_cards.md"
CUDA = ("sgl_kernel", "flashinfer", "deep_gemm")

pytestmark = [
    pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed"),
    pytest.mark.timeout(600),
]

survey = cache(partial(surveyed, run=run_warm))


def launch(setup: Setup, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = survey(setup)["launches"][name]
    return answer


@pytest.mark.sample(2)
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
            "decode_attention_backend": None,
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


def measured(card: str, folder: Path) -> str:
    """A folder with the table of that card, on which decode of bfloat16 is faster than FA3 and Triton, by single slots
    and by pages; of 8-bit floats by single slots, than FA3."""
    shape = {"latent": False, "group": 2, "dim": 16}
    decode = [
        {**shape, "eight_bit": False, "pages": pages, "faster_than": ["fa3", "triton"]}
        for pages in (False, True)
    ]
    decode.append({**shape, "eight_bit": True, "pages": False, "faster_than": ["fa3"]})
    (folder / "decode_card.json").write_text(json.dumps({"card": card, "decode": decode}))
    return str(folder)


def test_decode_is_ours_where_a_table_of_the_card_says_so(tmp_path: Path) -> None:
    """Prefill and every other decision stay SGLang's."""
    without = survey(Setup("sm_90", True, CUDA))["launches"]
    tables = measured(CARDS["sm_90"].name, tmp_path)
    found = survey(Setup("sm_90", True, CUDA, tables))
    changed = {name: launch for name, launch in found["launches"].items() if launch != without[name]}
    assert set(changed) == {
        "", "--kv-cache-dtype fp8_e4m3", "--quantization fp8", "--quantization w8a8_int8", "--quantization w4afp8",
        "--quantization gguf", "--sampling-backend pytorch", "--sampling-backend flashinfer", "--page-size 64",
        "--moe-runner-backend flashinfer_cutlass", "--moe-runner-backend cutlass", "--enable-hierarchical-cache",
    }  # fmt: skip
    for name, launch in changed.items():
        assert launch == {**without[name], "decode_attention_backend": "sglang_platform_cuda"}, name
        assert launch["attention_backend"] == "fa3", name
    assert any("decode attention is its own" in line for line in found["log"])


@pytest.mark.long
def test_a_table_of_another_card_changes_nothing(tmp_path: Path) -> None:
    tables = measured("NVIDIA H200 NVL", tmp_path)
    assert survey(Setup("sm_90", True, CUDA, tables)) == survey(Setup("sm_90", True, CUDA))


@pytest.mark.long  # a process for each set-up
def test_the_page_is_what_the_cards_say_now() -> None:
    assert page({setup: survey(setup) for setup in SETUPS}) == PAGE.read_text(), (
        "docs/pretended_cards.md is stale: python -m tools.pretended_cards --output docs/pretended_cards.md"
    )
