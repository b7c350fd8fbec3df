"""What torch asks of OpenReg in `test_ops.py` and `test_rnn.py`, asked here. For all of op_db: `many_calls/`."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F


def test_empty(device_type: str) -> None:
    assert torch.empty(2, 3, 4, 5, device=device_type).shape == (2, 3, 4, 5)
    with FakeTensorMode():
        z = torch.empty(3, 3, device=device_type) + torch.empty(3, 3, device=f"{device_type}:0")
        assert z.device.type == device_type
        assert z.shape == (3, 3)


def test_tensor(device_type: str) -> None:
    assert torch.tensor((), device=device_type).shape == (0,)


def test_cross_diff_devices_copy(device_type: str) -> None:
    x = torch.ones(10, device=f"{device_type}:0").to(f"{device_type}:1")
    assert x.cpu().tolist() == [1] * 10


def test_masked_select(device_type: str) -> None:
    x = torch.randn(10)
    there = x.to(device_type)
    assert torch.equal(there.masked_select(there > 0).cpu(), x.masked_select(x > 0))


def test_expand(device_type: str) -> None:
    x = torch.tensor([[1], [2], [3]], device=device_type)
    assert x.expand(3, 2).tolist() == [[1, 1], [2, 2], [3, 3]]
    assert x.expand(3, 2).data_ptr() == x.data_ptr()


def test_resize(device_type: str) -> None:
    x = torch.randn(4, 4, device=device_type)
    x.resize_(2, 2, 2, 2)
    assert x.shape == (2, 2, 2, 2)
    assert x.untyped_storage().nbytes() == 64


def test_printing(device_type: str) -> None:
    assert f"device='{device_type}:0'" in repr(torch.ones(20, device=device_type))


def test_backend_dispatchstub(device_type: str) -> None:
    """An out= of other strides is written where it is, as on the CPU."""
    x, out = torch.randn(2, 2, 3), torch.randn(2, 2, 6)
    x_there, out_there = x.to(device_type), out.to(device_type)
    torch.abs(x, out=out[:, :, 0:6:2])
    torch.abs(x_there, out=out_there[:, :, 0:6:2])
    assert torch.equal(out_there.cpu(), out)


def test_scalar_type_fallback(device_type: str) -> None:
    assert torch.equal(torch.triu_indices(3, 3, device=device_type).cpu(), torch.triu_indices(3, 3))


def test_tensorlist_type_fallback(device_type: str) -> None:
    x = torch.tensor([1.0, 2, 3], device=device_type)
    assert [t.tolist() for t in torch._foreach_add((x, x), (x, x))] == [[2, 4, 6]] * 2


def test_maximum_out(device_type: str) -> None:
    x, y = torch.tensor([1.0, 5, 3], device=device_type), torch.tensor([4.0, 2, 6], device=device_type)
    out = torch.empty(3, device=device_type)
    assert torch.maximum(x, y, out=out) is out
    assert out.tolist() == [4, 5, 6]


def test_what_waits_to_be_conjugated_is_copied_so(device_type: str) -> None:
    """Views that torch conjugates or negates late: each way out of them."""
    x = torch.randn(3, 2, dtype=torch.complex64)
    there = x.to(device_type)
    for view in (torch.conj, lambda t: t.conj().imag, lambda t: t.T.conj()[1:], torch.adjoint):
        expected = view(x)
        for copy in (
            torch.clone,
            torch.Tensor.cpu,
            torch.Tensor.contiguous,
            lambda t: torch.empty_like(t).copy_(t),
        ):
            assert torch.equal(copy(view(there)).cpu(), copy(expected)), (view, copy)
        assert torch.equal((view(there) * 2).cpu(), expected * 2)


def test_results_that_kernels_lay_out_anew(device_type: str) -> None:
    """Kernels that choose the strides or the room of their results themselves."""
    x = torch.randn(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)
    pooled, indices = F.max_pool2d(x, 2, return_indices=True)
    expected = F.max_unpool2d(pooled, indices, 2)
    got = F.max_unpool2d(pooled.to(device_type), indices.to(device_type), 2)
    assert torch.equal(got.cpu(), expected)
    a, b = torch.rand(5, dtype=torch.bfloat16), torch.rand(5, dtype=torch.bfloat16)
    there = F.binary_cross_entropy(a.to(device_type), b.to(device_type))
    torch.testing.assert_close(there.cpu(), F.binary_cross_entropy(a, b))


def test_set_without_a_source_is_empty(device_type: str) -> None:
    x = torch.ones(3, device=f"{device_type}:1").set_()
    assert x.shape == (0,)
    assert x.device.index == 1


def test_operators_that_look_for_their_device(device_type: str) -> None:
    x = torch.tensor([[1, 2, 2], [3, 3, 0]])
    assert torch.equal(torch.mode(x.to(device_type)).values.cpu(), torch.mode(x).values)
    window = torch.kaiser_window(6, device=f"{device_type}:1")
    assert window.device.index == 1
    torch.testing.assert_close(window.cpu(), torch.kaiser_window(6))


def test_a_result_that_overlaps_what_is_read_is_refused(device_type: str) -> None:
    for device in ("cpu", device_type):
        x = torch.arange(6.0, device=device)

        def add(x: torch.Tensor = x) -> None:
            torch.add(x[:-1], 1, out=x[1:])
            torch.accelerator.synchronize()

        with pytest.raises(RuntimeError, match="single memory location"):
            add()
        assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_result_that_repeats_elements_is_whole(device_type: str) -> None:
    """An operator may hand back its expanded argument, where its schema promises a new tensor."""
    x = torch.ones(1, device=device_type, dtype=torch.long).expand(4)
    result = torch.ops.aten._test_optional_intlist(x, None)
    assert result.tolist() == [1] * 4


def test_quantize(device_type: str) -> None:
    """Not implemented, and said."""
    x = torch.randn(3, 4, device=device_type)
    for call in (
        lambda: torch.quantize_per_tensor(x, 0.1, 10, torch.qint8),
        lambda: torch.empty(3, dtype=torch.quint8, device=device_type),
    ):
        with pytest.raises(NotImplementedError, match=r"(?i)quantized"):
            call()


def test_sparse_tensors_are_not_implemented_and_said(device_type: str) -> None:
    x = torch.eye(3, device=device_type)
    for call in (
        x.to_sparse,
        x.to_sparse_csr,
        lambda: torch.empty(3, device=device_type, layout=torch.sparse_coo),
    ):
        with pytest.raises(NotImplementedError):
            call()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_scaled_dot_product_attention(causal: bool, masked: bool, device_type: str) -> None:
    q, k, v = (torch.randn(2, 3, 40, 16) for _ in range(3))
    mask = torch.randn(2, 3, 40, 40) if masked and not causal else None
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    there = [t if t is None else t.to(device_type) for t in (q, k, v, mask)]
    got = F.scaled_dot_product_attention(*there[:3], attn_mask=there[3], is_causal=causal)
    torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_lstm_basic(kind: type[torch.nn.Module], device_type: str) -> None:
    """Torch asks a device for fused cells, which the CPU has not: not implemented, and said."""
    with pytest.raises(NotImplementedError, match=r"_thnn_fused_.*_cell"):
        kind(10, 20).to(device_type)(torch.randn(5, 2, 10, device=device_type))


def test_rnn_cpu_parity(device_type: str) -> None:
    """The recurrent layer without gates: forward, and the gradients of its weights."""
    layer, x = torch.nn.RNN(8, 16, num_layers=2, bidirectional=True), torch.randn(4, 3, 8)
    expected, hidden = layer(x)
    expected.sum().backward()
    gradient = layer.weight_ih_l0.grad.clone()
    layer.zero_grad()
    layer = layer.to(device_type)
    got, hidden_there = layer(x.to(device_type))
    got.sum().backward()
    torch.testing.assert_close(got.cpu(), expected)
    torch.testing.assert_close(hidden_there.cpu(), hidden)
    torch.testing.assert_close(layer.weight_ih_l0.grad.cpu(), gradient, rtol=1e-4, atol=1e-5)
