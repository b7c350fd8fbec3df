"""The product with 8-bit weights against float64, for few rows (bytes read in place) and many (weights widened)."""

from __future__ import annotations

import pytest
import torch

from sglang_platform.example_oot.quantization import _product


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("shape", [(48, 64), (40, 50)])
def test_product_is_that_of_the_widened_weights(
    dtype: torch.dtype, rows: int, shape: tuple[int, int]
) -> None:
    g = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, shape[1], generator=g).to(dtype)
    weight = torch.randint(-127, 128, shape, generator=g, dtype=torch.int8)
    scale = torch.rand(shape[0], generator=g) * 0.01
    expected = x.double() @ (weight.double() * scale.double()[:, None]).T
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    error = (_product(x, weight, scale).double() - expected).abs().max() / expected.abs().max()
    assert error < tolerance
