"""Kernels' inline assembly in the interpreter: every pair of 8-bit codes bit for bit; what is not known is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from sglang_platform.conformance.kernels.interpreter.ptx import execute
from sglang_platform.cuda.kernels.fp8_pairs import from_fp8_pairs


@triton.jit
def _widen(src, low, high, FORMAT: tl.constexpr, IN_HARDWARE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, second = from_fp8_pairs(tl.load(src + i), FORMAT, IN_HARDWARE, low.dtype.element_ty)
    tl.store(low + i, first)
    tl.store(high + i, second)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("in_hardware", [True, False])
@pytest.mark.parametrize("stored", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_pairs_of_codes(stored: torch.dtype, in_hardware: bool, dtype: torch.dtype) -> None:
    """Assembly and integer arithmetic are both torch's conversion. NaN has no sign that counts."""
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16)
    low, high = (torch.empty(1 << 16, dtype=dtype) for _ in range(2))
    _widen[(16,)](every, low, high, str(stored).removeprefix("torch.float8_"), in_hardware, 4096)
    expected = every.view(stored).to(dtype).view(-1, 2)
    for got, right in ((low, expected[:, 0]), (high, expected[:, 1])):
        assert torch.equal(got.isnan(), right.isnan())
        assert torch.equal(got.nan_to_num(), right.nan_to_num())
        assert torch.equal(got.signbit() & ~got.isnan(), right.signbit() & ~right.isnan())


def test_a_byte_permutation_takes_from_both_sources() -> None:
    low, high = np.array([0x33221100], np.uint32), np.array([0x77665544], np.uint32)
    made = execute("{ .reg .b32 t; prmt.b32 t, $1, $2, 0x0174; prmt.b32 $0, t, 0, 0x3210; }", [low, high], 1)
    assert made[0].tolist() == [0x00117744]


def test_what_is_not_known_refuses() -> None:
    one = np.zeros(1, np.uint32)
    with pytest.raises(NotImplementedError, match=r"ex2\.approx\.f32 \$0, \$1"):
        execute("ex2.approx.f32 $0, $1;", [one], 1)
    with pytest.raises(NotImplementedError, match="replicate"):
        execute("prmt.b32 $0, $1, 0, 0x8210;", [one], 1)
