"""Absorbed MLA over an 8-bit cache on gfx950, whose values are multiplied as they are by weights in two 8-bit parts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sglang_platform.conformance.kernels.checks import decode as check
from sglang_platform.conformance.kernels.checks.decode import DecodeProblem
from sglang_platform.conformance.kernels.mutants import Mutant, load
from sglang_platform.conformance.kernels.tested import as_target, drawing_from
from sglang_platform.core.portable.triton import softmax
from sglang_platform.rocm.kernels import decode
from sglang_platform.rocm.kernels.declared import KERNELS
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

CPU, GFX950 = torch.device("cpu"), ARCHITECTURES["gfx950"]
DECLARED = replace(next(one for one in KERNELS if one.name == "paged decode"), targets=(GFX950,))
TOKENS = 1024


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize(
    ("lengths", "group", "dim", "values", "splits", "sinks"),
    [
        ((100, 1, 33, 0), 16, 160, 128, 1, False),
        ((420, 64), 5, 160, 128, 2, True),
        ((70,), 16, 576, 512, 1, False),
    ],
)
def test_it_keeps_the_bound_of_decode(
    lengths: tuple[int, ...], group: int, dim: int, values: int, splits: int, sinks: bool, spread: float
) -> None:
    """As decode with weights of bfloat16 is held to: against float64."""
    one = DecodeProblem(
        lengths, 1, group, dim, values, 16, torch.bfloat16, torch.float8_e4m3fn, splits, latent=True, sinks=sinks,
        spread=spread,
    )  # fmt: skip
    with drawing_from(DECLARED):
        for outcome in check.run(decode.paged_decode, CPU, one, "two parts")[0]:
            assert outcome.good, outcome


def answered(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The answer [64] of one head of 64 + 16 columns to the query `q` [16] over the rows `k` [n, 80]."""
    n, slots = k.shape[0], 16
    cache = torch.cat((torch.zeros(slots, 80), k))[:, None].to(torch.float8_e4m3fn)
    query, out = torch.zeros(1, 1, 80), torch.empty(1, 1, 64, dtype=torch.bfloat16)
    query[0, 0, 64:] = q
    table, one = torch.arange(slots, slots + n, dtype=torch.int32)[None], torch.ones(1)
    with as_target(GFX950, CPU):
        decode.paged_decode(
            query.to(torch.bfloat16), cache, cache[..., :64], table, torch.zeros(1, dtype=torch.int64),
            torch.tensor([n]), out, scale=math.log(2.0), k_scale=one, v_scale=one, splits=1,
        )  # fmt: skip
    return out[0, 0]


def small_weights() -> float:
    """How far off, relatively, the answer is where all that counts are weights of 2^-20 of the largest, which stands in
    the first block and has the value zero."""
    k = torch.zeros(TOKENS, 80)
    k[1:, :64] = 1.0
    k[0, 64] = 1.0
    mass = (TOKENS - 1) * 2.0**-20
    return float((answered(torch.eye(16)[0] * 20.0, k).double() / (mass / (1 + mass)) - 1).abs().max())


def changed(old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(Mutant(new, softmax.__name__, old, new), folder)
    monkeypatch.setattr(decode, "softmax_step_by_block", module.softmax_step_by_block)


REFERENCE = "tl.maximum(block, largest - 32.0)"


def test_small_weights_are_lost_in_the_block_of_a_large_one_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are kept relative to the largest of their block: what is lost does not grow with the context."""
    block = GFX950.decode_shape(576, latent=True, eight_bit=True, float32=False).block_n
    assert small_weights() < 1.2 * block / TOKENS
    changed(REFERENCE, "largest", tmp_path, monkeypatch)
    assert small_weights() > 0.5


def test_a_block_far_below_the_largest_does_not_overflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is summed before is 2^200 times as much as a later block: the sum is not made relative to that block."""
    k = torch.zeros(80, 80)
    k[0, :64], k[0, 64] = 2.0, 1.0
    q = torch.eye(16)[0] * 200.0
    assert answered(q, k).eq(2.0).all()
    changed(REFERENCE, "block", tmp_path, monkeypatch)
    assert not answered(q, k).isfinite().all()
