"""Operators of the device, against the CPU's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F


def test_operators_give_what_the_cpu_gives(device_type: str) -> None:
    """Over every way an operator is served: out variants, meta kernels, views, and shapes that depend on values."""

    def ids(a, *values):
        return torch.tensor(values, device=a.device)

    cases = {
        "out variant": lambda a: a + 1,
        "matrix product": lambda a: a.double() @ a.T.double(),
        "in place": lambda a: a.clone().mul_(2),
        "list of tensors": lambda a: torch.cat([a, a[:2], a[:0]]),
        "a list that names one tensor twice, and slices of one memory": lambda a: torch.cat(
            [a[1:], a, a[:3], a]
        ),
        "several results": lambda a: a.sort(-1),
        "index": lambda a: a[ids(a, 2, 0)],
        "index from the host": lambda a: a[torch.tensor([2, 0])],
        "index_put": lambda a: a.clone().index_put_((ids(a, 1),), torch.tensor(3.0)),
        "embedding": lambda a: F.embedding(ids(a, 1, 3), a),
        "view of another type": lambda a: a.view(torch.int32),
        "strides": lambda a: a.T[1:, ::2].contiguous(),
        "shape from values": lambda a: (a > 0).nonzero(),
        "masked": lambda a: a[a > 0],
        "unique": lambda a: (a > 0).int().unique(),
        "counts": lambda a: a.repeat_interleave(ids(a, 1, 2, 0, 1), 0),
        "no tensor as result": lambda a: torch.equal(a, a),
        "value": lambda a: a.sum().item(),
        "resize": lambda a: torch.add(a, a, out=torch.empty(0, device=a.device)),
        "bfloat16": lambda a: a.bfloat16().T.contiguous() @ a.bfloat16(),
        "convolution": lambda a: F.conv1d(a[None], torch.ones(2, 4, 3, device=a.device)),
        "top k": lambda a: a.topk(2, -1),
    }
    x = torch.randn(4, 6)
    for name, run in cases.items():
        expected, got = run(x), run(x.to(device_type))
        many = isinstance(expected, tuple)
        for e, g in zip(expected if many else [expected], got if many else [got], strict=True):
            if isinstance(e, torch.Tensor):
                assert g.device.type == device_type, name
                assert g.stride() == e.stride(), name
                assert torch.equal(g.cpu(), e), name
            else:
                assert g == e, name
    close = F.scaled_dot_product_attention(*[x.to(device_type)[None, None]] * 3, is_causal=True).cpu()
    torch.testing.assert_close(close, F.scaled_dot_product_attention(*[x[None, None]] * 3, is_causal=True))


def test_products_of_a_linear_layer_and_all_others(device_type: str) -> None:
    """Few rows times a weight is the device's kernel, every other product the CPU's: both give what torch gives."""
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float64, 1e-12)):
        for rows in (0, 1, 2, 3, 9, 64, 65):
            x, weight = torch.randn(rows, 100, dtype=dtype), torch.randn(33, 100, dtype=dtype) / 10
            for bias in (None, torch.randn(33, dtype=dtype)):
                bias_there = None if bias is None else bias.to(device_type)
                got = F.linear(x.to(device_type), weight.to(device_type), bias_there)
                assert got.is_contiguous()
                assert got.dtype == dtype
                torch.testing.assert_close(
                    got.cpu(), F.linear(x, weight, bias), rtol=tolerance, atol=tolerance
                )
    x, weight = torch.randn(4, 6), torch.randn(5, 6)
    a, w = x.to(device_type), weight.to(device_type)
    torch.testing.assert_close((a[:, ::2] @ w[:, ::2].T).cpu(), x[:, ::2] @ weight[:, ::2].T)
    torch.testing.assert_close((a.T @ a).cpu(), x.T @ x)
    torch.testing.assert_close(
        torch.addmm(a[:, :5], a, w.T, beta=0.5, alpha=2).cpu(),
        torch.addmm(x[:, :5], x, weight.T, beta=0.5, alpha=2),
    )
    assert (a @ w[:0].T).shape == (4, 0)
    assert torch.equal((a[:, :0] @ w[:, :0].T).cpu(), torch.zeros(4, 5))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(a, w)


def test_mixing_devices_is_refused(device_type: str) -> None:
    x = torch.randn(3, 3).to(device_type)
    with pytest.raises(RuntimeError, match="expected all tensors on the device"):
        torch.mm(x, torch.randn(3, 3))
