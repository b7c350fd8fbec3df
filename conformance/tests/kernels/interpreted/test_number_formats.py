"""The repaired interpreter answers bit for bit what torch answers, on bfloat16 and the 8-bit floats."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

NARROW = {
    "bf16": torch.bfloat16,
    "e4m3fn": torch.float8_e4m3fn,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2": torch.float8_e5m2,
}
FLOAT8 = {name: dtype for name, dtype in NARROW.items() if name != "bf16"}


@triton.jit
def _cast(src, dst, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + i, tl.load(src + i, mask=i < n).to(dst.dtype.element_ty), mask=i < n)


@triton.jit
def _arithmetic(a, b, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + i, mask=i < n)
    y = tl.load(b + i, mask=i < n)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "max":
        z = tl.maximum(x, y)
    else:
        z = tl.where(x < y, x, y)
    tl.store(out + i, z.to(out.dtype.element_ty), mask=i < n)


@triton.jit
def _matmul(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    k = tl.arange(0, K)
    product = tl.dot(tl.load(a + m * K + k[None, :]), tl.load(b + k[:, None] * N + n))
    tl.store(out + m * N + n, product)


@triton.jit
def _sum(src, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(src + tl.arange(0, N)), 0))


@triton.jit
def _max(src, out, N: tl.constexpr):
    tl.store(out, tl.max(tl.load(src + tl.arange(0, N)), 0))


def cast(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.empty(values.shape, dtype=dtype)
    _cast[(triton.cdiv(values.numel(), 4096),)](values, out, values.numel(), BLOCK=4096)
    return out


def bits(values: torch.Tensor) -> torch.Tensor:
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[values.element_size()]
    # Formats differ in which NaN they make; that it is one is what counts.
    return torch.where(values.float().isnan(), torch.full_like(values.view(kind), 0x7F), values.view(kind))


def float32_samples() -> torch.Tensor:
    """Every sign and exponent, with mantissas at and beside each rounding boundary, and random ones."""
    generator = torch.Generator().manual_seed(1)
    exponent = torch.arange(512, dtype=torch.int64)[:, None] << 23
    edges = [1 << shift for shift in range(23)]
    mantissa = sorted(
        {m for edge in edges for m in (edge - 1, edge, edge + 1, 3 * edge & 0x7FFFFF)} | {0x7FFFFF, 0}
    )
    mantissa = torch.cat((torch.tensor(mantissa), torch.randint(0, 1 << 23, (64,), generator=generator)))
    return (exponent + mantissa[None, :]).reshape(-1).to(torch.int32).view(torch.float32)


@pytest.mark.parametrize("name", NARROW)
def test_float32_is_rounded_as_torch_rounds(name: str) -> None:
    values = float32_samples()
    assert torch.equal(bits(cast(values, NARROW[name])), bits(values.to(NARROW[name])))


@pytest.mark.parametrize("name", FLOAT8)
def test_float16_and_bfloat16_are_rounded_as_torch_rounds(name: str) -> None:
    for source in (torch.float16, torch.bfloat16):
        values = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(source)
        assert torch.equal(bits(cast(values, FLOAT8[name])), bits(values.to(FLOAT8[name])))


@pytest.mark.parametrize("name", NARROW)
def test_every_narrow_value_is_widened_exactly(name: str) -> None:
    dtype = NARROW[name]
    kind, count = (torch.int16, 1 << 16) if name == "bf16" else (torch.uint8, 256)
    values = torch.arange(count, dtype=torch.int32).to(kind).view(dtype)
    for wide in (torch.float32, torch.float16, torch.bfloat16):
        assert torch.equal(bits(cast(values, wide)), bits(values.to(wide)))


def test_the_values_that_stock_interpreters_get_wrong() -> None:
    values = torch.tensor([1.97, 440.0, float("nan"), -1.97])
    assert cast(values, torch.float8_e4m3fn).float().nan_to_num(7.0).tolist() == [2.0, 448.0, 7.0, -2.0]
    assert cast(torch.tensor([1.0 + 2**-8 + 2**-12]), torch.bfloat16).item() == 1.0 + 2**-7


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "max", "min"])
def test_bfloat16_arithmetic_is_torchs(operation: str) -> None:
    generator = torch.Generator().manual_seed(2)
    a = torch.randint(-(1 << 15), 1 << 15, (20000,), generator=generator).to(torch.int16).view(torch.bfloat16)
    b = torch.randint(-(1 << 15), 1 << 15, (20000,), generator=generator).to(torch.int16).view(torch.bfloat16)
    finite = a.isfinite() & b.isfinite()
    a, b = a[finite], b[finite]
    out = torch.empty_like(a)
    _arithmetic[(triton.cdiv(a.numel(), 4096),)](a, b, out, a.numel(), OP=operation, BLOCK=4096)
    expected = {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "max": torch.maximum(a, b),
        "min": torch.where(a < b, a, b),
    }[operation]
    assert torch.equal(bits(out), bits(expected))


@pytest.mark.parametrize("name", [*NARROW, "fp16"])
def test_dot_multiplies_values_not_bits(name: str) -> None:
    """Small integers, so that every order of summation gives the same float32."""
    generator = torch.Generator().manual_seed(3)
    dtype = {**NARROW, "fp16": torch.float16}[name]
    a = torch.randint(-7, 8, (16, 32), generator=generator).float().to(dtype)
    b = torch.randint(-7, 8, (32, 16), generator=generator).float().to(dtype)
    out = torch.empty(16, 16)
    _matmul[(1,)](a, b, out, M=16, N=16, K=32)
    assert torch.equal(out, a.float() @ b.float())


def test_reductions_of_bfloat16_refuse_or_are_exact() -> None:
    """A sum in bfloat16 depends on the order that the device picks; a maximum does not."""
    x = torch.randn(256, generator=torch.Generator().manual_seed(4)).to(torch.bfloat16)
    out = torch.empty(1)
    with pytest.raises(triton.runtime.errors.InterpreterError, match="cast it first"):
        _sum[(1,)](x, out, N=256)
    _max[(1,)](x, out, N=256)
    assert out.item() == x.float().max().item()
