"""What the machine code of the decode kernels must show on each architecture, and how the parts of its reading read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sglang_platform.conformance.kernels.compile.loop import LoopCode
from sglang_platform.conformance.kernels.compile.machine_code import MachineCode
from sglang_platform.conformance.kernels.compile.predict import DEVICES, DecodeWork, predict
from sglang_platform.core.portable.triton.attention_shapes import split_count

PROGRAM = Path(__file__).parent / "programs" / "code_of_decode.py"

# Where the code falls short, with the reason; each is a cell of docs/decode_code.md.
NOTHING_AHEAD = {
    ("gfx942", "MLA"): "64 KiB of LDS and the registers hold the rows of one turn",
    ("gfx942", "MLA 128 heads"): "as with 16 heads",
    ("gfx942", "MLA fp8"): "as of bfloat16",
    ("gfx950", "MLA fp8"): "with the next rows on their way Triton 3.8 spills 148 bytes",
}
UNDER_NINETY = {
    (
        "H200",
        "MLA 128 heads",
    ): "two programs of 64 heads read the same rows: the accumulator fills the registers",
    ("H200", "MLA 128 heads, whole pages"): "as by single slots",
    ("MI300X", "MLA"): "partial results of nine splits",
    ("MI300X", "MLA fp8"): "as of bfloat16, beside half of the bytes",
    ("MI300X", "MLA 128 heads"): "eight programs of 16 heads read the same rows",
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("target", ["gfx942", "sm_90", "sm_100", "gfx950"])
def test_the_loop_over_the_cache(target: str, tmp_path: Path) -> None:
    """In a process of its own: a process that compiles must not have met the interpreter."""
    environment = {**os.environ, "TRITON_CACHE_DIR": os.environ.get("TRITON_CACHE_DIR", str(tmp_path))}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), target], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert rows.keys() >= {"GQA bf16", "GQA fp8", "MLA"}
    for case, row in rows.items():
        where = f"{case} on {target}: {row}"
        assert row["code"]["spills"] == 0, where
        assert row["loop"]["matrix"] > 0, where
        if (target, case) in NOTHING_AHEAD:
            assert row["loop"]["ahead"] == 0, f"{where}: better than the reason says, take it out"
        else:
            assert row["loop"]["ahead"] >= 1, where
        if "fp8" not in case or target.startswith("sm"):
            assert row["loop"]["byte_loads"] == 0, where
        for device, share in row["predicted"].items():
            if (device, case) in UNDER_NINETY:
                assert share < 0.9, f"{where}: better than the reason says, take it out"
            else:
                assert share >= 0.9, where
    if target.startswith("sm"):
        # Two codes per conversion: 16 KiB of codes over 4 warps are 64 of them, and few for the probabilities.
        assert rows["GQA fp8"]["loop"]["conversions"] <= 70
        # A turn over whole pages takes fewer instructions for a token.
        for case in ("GQA bf16", "GQA fp8", "MLA", "MLA fp8", "MLA 128 heads"):
            slots, pages = rows[case], rows[f"{case}, whole pages"]
            assert pages["per_token"] < slots["per_token"], f"{case} on {target}: {slots} {pages}"
        # Half the bytes for less than the instructions.
        assert rows["GQA fp8"]["loop"]["instructions"] < rows["GQA bf16"]["loop"]["instructions"]
    else:
        # The scores are products of codes as they are: only those of the values are converted, two at a time.
        assert rows["GQA fp8"]["loop"]["conversions"] <= 64
    if target == "gfx950":
        # Values of MLA enter the products as they are: what is converted are weights, into their two parts.
        assert rows["MLA fp8"]["loop"]["conversions"] <= 12
        assert rows["MLA fp8"]["loop"]["byte_loads"] == 0
        assert rows["MLA fp8"]["loop"]["instructions"] < rows["MLA"]["loop"]["instructions"]


def code(registers: int, shared: int) -> MachineCode:
    return MachineCode(registers, 0, 0, shared, "mma.sync", 32, 8)


def test_the_prediction_is_bound_by_what_is_scarce() -> None:
    h200 = DEVICES["H200"]
    work = DecodeWork(turn=32 * 1024, readers=1, programs=132 * 4, cache=1 << 30, partial=0)
    quick = LoopCode(instructions=300, matrix=32, ahead=2, conversions=0, byte_loads=0)
    good = predict(h200, code(96, 64 * 1024), quick, 4, work)
    assert good.share == 1.0
    assert good.bound == ""
    slow = predict(h200, code(96, 64 * 1024), LoopCode(3000, 32, 2, 0, 0), 4, work)
    assert slow.share < 0.5
    assert slow.bound == "instructions issued"
    assert slow.share == pytest.approx(
        32 * 1024 / (3000 * 4 / (4 * 0.75) / h200.clock) / (h200.bandwidth / h200.processors)
    )
    alone = predict(h200, code(255, 220 * 1024), LoopCode(300, 32, 0, 0, 0), 8, work)
    assert alone.bound == "bytes in flight"
    uneven = predict(
        h200,
        code(96, 64 * 1024),
        quick,
        4,
        DecodeWork(turn=32768, readers=1, programs=133, cache=1, partial=0),
    )
    assert uneven.bound == "last round"
    assert uneven.share == pytest.approx(133 / 264)


@pytest.mark.parametrize(
    ("processors", "waves", "programs", "tokens", "splits"),
    [
        (132, 1, 64, 8192, 4),  # 3 would leave every fourth processor without work for half of the time
        (304, 2, 512, 8192, 4),
        (132, 2, 4096, 8192, 1),
        (132, 2, 8, 100, 1),
        (132, 2, 8, 0, 1),
        (132, 2, 1, 1 << 20, 64),
    ],
)
def test_splits_fill_the_rounds(processors: int, waves: int, programs: int, tokens: int, splits: int) -> None:
    assert split_count(processors, waves, programs, tokens) == splits
