"""Values where torch's own way for every device, or a kernel given memory for its result, would be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F


def _finish(call: Callable[[torch.Tensor], object], a: torch.Tensor) -> None:
    call(a)
    torch.accelerator.synchronize()


def test_what_overlaps_is_refused_as_on_the_host(device_type: str) -> None:
    def pick(a: torch.Tensor) -> torch.Tensor:
        return torch.tensor([2, 1, 0], device=a.device)

    cases: dict[str, Callable[[torch.Tensor], object]] = {
        "copy": lambda a: a[4:].copy_(a[:8]),
        "masked_select": lambda a: torch.masked_select(a, a > 3, out=a[:8]),
        "kthvalue": lambda a: torch.kthvalue(a, 3, out=(a, pick(a)[0])),
        "gather": lambda a: torch.gather(a, 0, pick(a), out=a[:3]),
        "take": lambda a: torch.take(a, pick(a), out=a[:3]),
        "cat": lambda a: torch.cat([a[:4], a[4:8]], out=a[2:10]),
        "index_select": lambda a: torch.index_select(
            a.view(2, 6), 1, pick(a), out=a.new_zeros(1, 6).expand(2, 6)
        ),
    }
    for name, call in cases.items():
        for device in ("cpu", device_type):
            a = torch.arange(12.0, device=device)
            with pytest.raises(RuntimeError, match="single memory location"):
                _finish(call, a)
            assert a.tolist() == list(range(12)), name


def test_a_row_far_from_zero_keeps_its_digits(device_type: str) -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(3)) * 0.01 + 300
    norms: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "layer": lambda x: F.layer_norm(x, (16,)),
        "group": lambda x: F.group_norm(x[..., None], 4)[..., 0],
    }
    for norm in norms.values():
        torch.testing.assert_close(norm(x.to(device_type)).cpu(), norm(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weights", [None, torch.float32, torch.bfloat16])
def test_norms_and_their_gradients(weights: torch.dtype | None, dtype: torch.dtype, device_type: str) -> None:
    if dtype == torch.float32 and weights == torch.bfloat16:
        return  # refused by the CPU too
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(3)).to(dtype)
    found = []
    for device in ("cpu", device_type):
        given = x.to(device, copy=True).requires_grad_()
        weight = None if weights is None else torch.full((16,), 1.5, dtype=weights, device=device)
        layer = F.layer_norm(given, (16,), weight)
        group = F.group_norm(given, 2, weight)
        (layer.float().sum() + (group.float() * layer.float()).sum()).backward()
        found.append((layer, group, given.grad))
    for host, ours in zip(*found, strict=True):
        assert host is not None
        assert ours is not None
        torch.testing.assert_close(ours.cpu(), host)


def test_batches_are_normed_by_what_was_seen_before(device_type: str) -> None:
    x, mean, variance = torch.randn(3, 2, 4), torch.randn(2), torch.rand(2) + 1
    expected = F.batch_norm(x, mean, variance)
    got = F.batch_norm(*(t.to(device_type) for t in (x, mean, variance)))
    torch.testing.assert_close(got.cpu(), expected)


def test_a_loss_is_one_number_in_whatever_it_is_written_into(device_type: str) -> None:
    a, b = torch.randn(5), torch.randn(5)
    expected = F.huber_loss(a, b)
    x, y = a.to(device_type), b.to(device_type)
    torch.testing.assert_close(F.huber_loss(x, y).cpu(), expected)
    out = torch.zeros((), device=device_type)
    torch.ops.aten.huber_loss.out(x, y, out=out)
    torch.testing.assert_close(out.cpu(), expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_have_gradients(transposed: bool, device_type: str) -> None:
    convolve = F.conv_transpose2d if transposed else F.conv2d
    found = []
    for device in ("cpu", device_type):
        generator = torch.Generator().manual_seed(4)
        shapes = ((2, 4, 5, 5), (4, 4, 3, 3), (4,))
        x, weight, bias = (
            torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in shapes
        )
        out = convolve(x, weight, bias, stride=2, padding=1)
        (out * out).sum().backward()
        found.append((out, x.grad, weight.grad, bias.grad))
    for host, ours in zip(*found, strict=True):
        assert host is not None
        assert ours is not None
        torch.testing.assert_close(ours.cpu(), host)


@pytest.mark.parametrize("step", [1, 2])
def test_what_an_out_tensor_holds_is_added_to(step: int, device_type: str) -> None:
    # torch has no meta kernel for it: the host waits, and computes beside the tensor
    x, coefficients = torch.arange(12.0).view(3, 4), torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]])
    memory = torch.full((2, 4 * step), 7.0, device=device_type)
    out = memory[:, ::step]
    torch.ops.aten._compute_linear_combination.out(x.to(device_type), coefficients.to(device_type), out=out)
    expected = torch.full((2, 4 * step), 7.0)
    expected[:, ::step] += coefficients @ x
    torch.testing.assert_close(memory.cpu(), expected)
