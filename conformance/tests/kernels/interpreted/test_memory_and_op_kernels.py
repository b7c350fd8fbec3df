"""The kernels of the package `KERNELS_OF` for memory and fused ops in the interpreter, and defects of every kind, which the checks must see."""

# ruff: noqa: E501 - a table of one mutant per line

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from sglang_platform.conformance.kernels.interpreter.run import check_of
from sglang_platform.conformance.kernels.interpreter.watch import AccessError
from sglang_platform.conformance.kernels.load import named
from sglang_platform.conformance.kernels.mutants import Mutant, load, mutated
from sglang_platform.conformance.kernels.tested import drawing_from
from sglang_platform.core.contract.kernels import KernelDeclaration

CPU = torch.device("cpu")
HERE = f"sglang_platform.{os.environ['KERNELS_OF']}.kernels"
PORTABLE = "sglang_platform.core.portable.triton"
ATTENTION = {"paged decode", "paged extend", "sparse decode", "index logits", "top_slots"}
KERNELS = [one for one in importlib.import_module(f"{HERE}.declared").KERNELS if one.name not in ATTENTION]
BY_NAME = {declared.name: declared for declared in KERNELS}


@pytest.mark.parametrize("declared", KERNELS, ids=lambda declared: declared.name)
def test_a_kernel_gives_what_it_must(declared: KernelDeclaration) -> None:
    with drawing_from(declared):
        seen = list(check_of(declared)(named(declared.entry), CPU, 1))
    assert len(seen) >= 30
    # `python -m sglang_platform.conformance.kernels` runs them all; every third here, the shapes still all differ.
    for case in seen[::3]:
        for outcome in case.run():
            assert outcome.good, f"{case.name}: {outcome}"


SHARED = ("kv_store", "rotary_store", "dsa_store", "quantise", "fp8_codes")


def of(family: str, name: str, module: str, old: str, new: str, count: int = 1) -> Any:
    place = f"{PORTABLE}.kernels.{module}" if module in SHARED else f"{PORTABLE}.{module}"
    return pytest.param(family, Mutant(name, place, old, new, count), id=f"{family}: {name}")


MUTANTS = [
    of("kv_store", "the slot after", "kv_store", "slots[:, None] * out_stride", "(slots + 1)[:, None] * out_stride"),
    of("kv_store", "no scale", "kv_store", 'SCALE != "none"', 'SCALE == "never"'),
    of("kv_store", "multiplied by the scale", "kv_store", "divisor = scale", "divisor = 1.0 / scale"),
    of("kv_store", "one column too many", "kv_store", "column < WIDTH", "column <= WIDTH"),
    of("kv_store", "the last token left out", "kv_store", "live = tokens < n", "live = tokens < n - 1"),
    of("kv_store", "tokens beyond the batch", "kv_store", "live = tokens < n", "live = tokens < n + 1"),
    of(
        "kv_store",
        "two programs store one row",
        "kv_store",
        "tl.program_id(0).to(tl.int64) * BLOCK_N",
        "tl.program_id(0).to(tl.int64) // 2 * BLOCK_N",
    ),
    of("kv_store", "the keys' scale for the values", "kv_store", "b_ptr, b_out_ptr, b_scale,", "b_ptr, b_out_ptr, a_scale,"),
    of("kv_store", "heads taken as adjacent", "kv_store", "A_FLAT=_flat(a)", "A_FLAT=True"),
    of("rotary_store", "the slot after", "rotary_store", "v_out_ptr + slot * v_out_stride", "v_out_ptr + (slot + 1) * v_out_stride"),
    of("rotary_store", "keys stored before they are turned", "rotary_store", "as_stored(y1,", "as_stored(x1,"),
    of("rotary_store", "pairs stored in float32's place", "rotary_store", "as_stored(turned,", "as_stored(pairs,"),
    of("rotary_store", "keys left unturned in their place", "rotary_store", "tl.store(row_ptr + first, y1, mask=mask)", "tl.store(row_ptr + first, x1, mask=mask)"),
    of("rotary_store", "turned the other way", "rotary_store", "x2 * cos + x1 * sin", "x2 * cos - x1 * sin"),
    of("rotary_store", "the rest of a head not stored", "rotary_store", "(rest < HEAD_DIM)", "(rest < HEAD_DIM - 1)"),
    of("rotary_store", "the rest from the head's begin", "rotary_store", "rest = 2 * HALF +", "rest = HALF +"),
    of("rotary_store", "stored at slots below zero", "rotary_store", "(column < V_WIDTH) & (slot >= 0)", "column < V_WIDTH"),
    of("rotary_store", "columns beyond the values", "rotary_store", "(column < V_WIDTH)", "(column <= V_WIDTH)"),
    of("rotary_store", "the keys' scale for the values", "rotary_store", "as_stored(values, v_scale", "as_stored(values, k_scale"),
    of("rotary_store", "slots taken for rows", "rotary_store", "RENUMBERED=slots is not None", "RENUMBERED=False"),
    of("rotary_store", "a key head too many", "rotary_store", "live = head < KEY_HEADS", "live = head <= KEY_HEADS"),
    of("rotary_store", "the position after", "rotary_store", "tl.load(positions_ptr + token)", "(tl.load(positions_ptr + token) + 1)"),
    of("rotary_store", "scaled where nothing is cast", "rotary_store", "k_scale = v_scale = None", "pass"),
    of("kv_move", "pages of the target read", "kv_move", "(source // PER_PAGE)", "(target // PER_PAGE)"),
    of("kv_move", "the row after", "kv_move", "source * (between // WORD)", "(source + 1) * (between // WORD)"),
    of("kv_move", "the last row left out", "kv_move", "live = which < n", "live = which < n - 1"),
    of("kv_move", "the last words left out", "kv_move", "column < row // WORD", "column < row // WORD - 1"),
    of("kv_move", "columns beyond the row", "kv_move", "column < row // WORD", "column <= row // WORD"),
    of("dsa_packed_store", "the scale after", "dsa_store", "RANK // 4 + tile", "RANK // 4 + tile + 1"),
    of("dsa_packed_store", "another largest value", "dsa_store", "torch.finfo(dtype).max", "torch.finfo(dtype).max / 2"),
    of("dsa_packed_store", "the rotated part shifted", "dsa_store", "(RANK + 4 * TILES) // 2", "(RANK + 2 * TILES) // 2"),
    of("dsa_index_store", "scales among the keys", "index_key_store", "PER_PAGE * HEAD_DIM // 4", "PER_PAGE * HEAD_DIM // 8"),
    of("dsa_index_store", "the token after", "index_key_store", "within * HEAD_DIM", "(within + 1) * HEAD_DIM"),
    of("dsa_index_store", "one scale for all blocks", "index_key_store", "(block < BLOCKS)", "(block < 1)"),
    of("extend_slots", "the page after", "page_slots", "position // PAGE - before", "position // PAGE - before + 1"),
    of("extend_slots", "this request counted", "page_slots", "earlier = other < request", "earlier = other <= request"),
    of("extend_slots", "the tail one short", "page_slots", "before * PAGE)", "before * PAGE - 1)"),
    of("extend_slots", "the tail repeats the last slot", "page_slots", "last_loc + 1 + token", "last_loc + token"),
    of("extend_slots", "programs overlap", "page_slots", "length, programs * BLOCK", "length, BLOCK"),
    of("decode_slots", "the page after", "page_slots", "axis=0) - 1", "axis=0)"),
    of("decode_slots", "pages of earlier blocks forgotten", "page_slots", "rank = taken + ", "rank = "),
    of("decode_slots", "pages start one late", "page_slots", "live & ((seq - 1) % PAGE", "live & (seq % PAGE"),
    of("rms_norm", "padding in the mean", "norm", "axis=1) / WIDTH", "axis=1) / BLOCK"),
    of("rms_norm", "no epsilon", "norm", "tl.sqrt(mean + eps)", "tl.sqrt(mean)"),
    of("rms_norm", "no weight", "norm", "y = y * weight[None, :]", "y = y"),
    of("rms_norm", "rows taken as adjacent", "norm", "x.stride(0), second", "x.shape[1], second"),
    of("fused_add_rms_norm", "the residual not added", "norm", "x += tl.load(at", "_ = tl.load(at"),
    of("fused_add_rms_norm", "the residual not kept", "norm", "tl.store(at, x.to", "tl.store(at, 0 * x.to"),
    of("silu_and_mul", "gate and factor swapped", "activation", "tl.exp(-gate)) * up", "tl.exp(-up)) * up"),
    of("silu_and_mul", "sigmoid alone", "activation", "gate / (1.0", "1.0 / (1.0"),
    of("silu_and_mul", "a column too many", "activation", "column < WIDTH", "column <= WIDTH"),
    of("rotary_embedding", "turned the other way", "rotary", "x1 * cos - x2 * sin", "x1 * cos + x2 * sin"),
    of("rotary_embedding", "pairs turned the other way", "rotary", "a * cos - b * sin", "a * cos + b * sin"),
    of("rotary_embedding", "halves of the head, not of the rotated part", "rotary", "half[None, :] + HALF", "half[None, :] + HEAD_DIM // 2"),
    of("rotary_embedding", "the position after", "rotary", "tl.load(positions_ptr + token)", "(tl.load(positions_ptr + token) + 1)"),
    of("rotary_embedding", "a key head too many", "rotary", "head < KEY_HEADS", "head <= KEY_HEADS"),
    of("quantise_per_token", "the group after", "quantise", "(group % PER_ROW) * WIDTH", "((group + 1) % PER_ROW) * WIDTH"),
    of("quantise_per_token", "padding in the maximum", "quantise", "other=0.0", "other=1e9"),
    of("quantise_per_token", "another largest value", "quantise", "LARGEST=torch.finfo(dtype).max", "LARGEST=256.0"),
]  # fmt: skip

FP8_MUTANTS = [
    of("kv_store", "ties away from even", "fp8_codes", "- 1) + kept_odd", ")"),
    of("kv_store", "no saturation", "fp8_codes", "tl.minimum(bits & 0x7FFFFFFF, LARGEST_BITS)", "bits & 0x7FFFFFFF"),
    of("kv_store", "subnormals flushed", "fp8_codes", "tl.where(magnitude < ((128 - BIAS) << 23), subnormal", "tl.where(magnitude < ((128 - BIAS) << 23), 0"),
    of("kv_store", "the sign lost", "fp8_codes", "codes |= sign", "codes |= 0"),
    of("kv_store", "NaN stored as a number", "fp8_codes", "tl.where(x != x, NAN_CODE, codes)", "codes"),
    of("kv_store", "the other bias", "fp8_codes", "+ (1 if FNUZ else 0)", "+ (0 if FNUZ else 1)", 2),
    of("dsa_packed_store", "no scale for zeros", "fp8_codes", "tl.where(scale == 0.0, 1.0, scale)", "scale"),
    of("quantise_per_token", "no scale for zeros", "fp8_codes", "tl.where(scale == 0.0, 1.0, scale)", "scale"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "mutant"), MUTANTS)
def test_a_defect_is_caught(family: str, mutant: Mutant, tmp_path: Path) -> None:
    declared = BY_NAME[family]
    entry = mutated(named(declared.entry), mutant, tmp_path)
    assert caught(declared, entry), "every case passed with the defect"


@pytest.mark.parametrize(("family", "mutant"), FP8_MUTANTS)
def test_a_defect_of_the_conversion_is_caught(
    family: str, mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = BY_NAME[family]
    entry = named(declared.entry)
    module = importlib.import_module(entry.func.__module__)
    conversion = "to_fp8_codes" if hasattr(module, "to_fp8_codes") else "scaled_codes"
    monkeypatch.setattr(module, conversion, getattr(load(mutant, tmp_path), conversion))
    assert caught(declared, entry), "every case passed with the defect"


def caught(declared: KernelDeclaration, entry: Any) -> bool:
    """Whether some case is off by ten bounds, or its accesses are refused."""
    with drawing_from(declared):
        cases = list(check_of(declared)(entry, CPU, 1))
    for case in cases:
        try:
            outcomes = case.run()
        except AccessError as error:
            print(f"{case.name}: {error}")
            return True
        worst = max(outcomes, key=lambda outcome: outcome.error)
        if worst.error >= 10:
            print(f"{case.name}: {worst}")
            return True
    return False
