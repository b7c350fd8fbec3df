"""The table of decode of a card: what its rows say, and that the platform reads what the benchmark writes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.core.host import DecodeAsked
from sglang_platform.core.portable.decode_tables import is_faster

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "gpu_decode_table.py"
SLOTS = "sglang_platform, single slots"
CARD = "NVIDIA H200"
ASKED = DecodeAsked("fa3", latent=False, eight_bit=False, group=4, dim=128, page_size=64)
GQA = ("decode gqa bf16", "32/8", 128)


def row(
    batch: int, name: str = GQA[0], heads: Any = GQA[1], dim: Any = GQA[2], **over: float
) -> dict[str, Any]:
    """A row in which ours took a millisecond by pages and two by single slots, and each peer so much of the first."""
    return {
        "name": name,
        "case": {"batch": batch, "context": 8192, "heads": heads, "dim": dim},
        "seconds": {
            "sglang_platform": 1e-3,
            SLOTS: 2e-3,
            **{peer: 1e-3 * ratio for peer, ratio in over.items()},
        },
        "missing": {},
    }


def written(tmp_path: Path, rows: list[dict[str, Any]], **versions: str) -> Path:
    """The folder after the command ran on these rows."""
    results = tmp_path / "gpu_all.json"
    results.write_text(
        json.dumps({"versions": {"target": "sm_90", "device": CARD, **versions}, "rows": rows})
    )
    (tmp_path / "tuning").mkdir()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(results), str(tmp_path / "tuning")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "tuning"


def test_the_platform_reads_what_is_written(tmp_path: Path) -> None:
    mla = ("decode mla fp8", 16, "576/512")
    rows = [row(1, fa3=1.1, flashinfer=0.9), row(128, fa3=1.0, flashinfer=2.0)]
    rows += [row(1, *mla, **{"sglang triton": 1.5}), row(256, *mla, **{"sglang triton": 2.5})]
    tables = written(tmp_path, rows)
    assert [file.name for file in tables.iterdir()] == ["decode_nvidia_h200.json"]
    assert is_faster(tables, CARD, ASKED)
    assert not is_faster(tables, "NVIDIA H100 80GB HBM3", ASKED)
    for other in (
        {"beside": "flashinfer"}, {"beside": "triton"}, {"beside": "trtllm_mha"}, {"eight_bit": True}, {"group": 8},
        {"dim": 64}, {"page_size": 1}, {"latent": True},
    ):  # fmt: skip
        assert not is_faster(tables, CARD, ASKED._replace(**other)), other
    latent = ASKED._replace(beside="triton", latent=True, eight_bit=True, group=16, dim=576)
    assert is_faster(tables, CARD, latent)
    assert not is_faster(tables, CARD, latent._replace(page_size=16)), (
        "2.0x is lost by single slots, 0.75x is left"
    )


@pytest.mark.parametrize(
    "rows",
    [
        [row(32, fa3=3.0)],  # one of each name, as the first run on a card times them
        [row(1, fa3=3.0), row(32, fa3=3.0)],
        [row(32, fa3=3.0), row(256, fa3=3.0)],
        [row(1, fa3=3.0), row(32, fa3=0.98), row(256, fa3=3.0)],
        [row(1, fa3=1.0), row(256, fa3=1.0)],
        [row(1, fa3=0.995), row(256, fa3=1.001)],
        [row(1, flash_attn=3.0), row(256, flash_attn=3.0)],  # FlashAttention 2, which SGLang has not
        [row(1, fa3=3.0), row(256)],
    ],
)
def test_too_few_rows_or_a_slower_one_change_nothing(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    assert not is_faster(written(tmp_path, rows), CARD, ASKED)


def test_a_device_without_whole_pages_has_one_way(tmp_path: Path) -> None:
    rows = [row(1, fa3=1.1), row(128, fa3=1.1)]
    for timed in rows:
        del timed["seconds"][SLOTS]
        timed["missing"] = {SLOTS: "this device reads no whole pages, so ours is by single slots"}
    tables = written(tmp_path, rows)
    assert is_faster(tables, CARD, ASKED)
    assert is_faster(tables, CARD, ASKED._replace(page_size=1))


@pytest.mark.parametrize(
    "rows", [[], [{**row(1), "seconds": {}}], [{**row(1, fa3=2.0), "name": "prefill gqa bf16"}]]
)
def test_without_times_no_table_is_written(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    assert not list(written(tmp_path, rows).iterdir())


def test_peers_are_known_by_the_names_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    source = (PROGRAM.parent / "gpu_rows" / "attention.py").read_text()
    module = importlib.import_module("gpu_decode_table")
    for name in (*module.BACKENDS, module.OURS, module.SLOTS):
        assert f'"{name}"' in source, name
