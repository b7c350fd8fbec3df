"""Calls that no careful caller makes: each is right as on the host, or refused at once, and the device goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional as F

from sglang_platform.example_oot import kernels


@pytest.fixture(autouse=True)
def _still_serves(device_type: str) -> Iterator[None]:
    yield
    torch.accelerator.synchronize()
    assert (torch.ones(5, device=device_type) + 1).sum().item() == 10


def test_a_tensor_grows_as_on_the_host(device_type: str) -> None:
    for shape in ((1 << 18,), (3, 5), (0, 4), (7,)):
        x = torch.arange(4.0, device=device_type)
        x.resize_(shape)
        assert x.shape == shape
        kept = min(4, x.numel())
        assert x.flatten()[:kept].tolist() == list(range(kept))
        x.fill_(2)
        assert x.sum().item() == 2 * x.numel()
    whole = torch.arange(24.0, device=device_type)
    tail = whole[20:]
    tail.resize_(1000)
    whole.fill_(3)  # the same memory, wherever it lies now
    assert tail[:4].tolist() == [3] * 4
    crossed = torch.arange(24.0, device=device_type).view(4, 6).t()[1:]
    crossed.resize_(100, 100).fill_(1)
    assert crossed.sum().item() == 10000
    with pytest.raises(torch.OutOfMemoryError):
        whole.resize_(1 << 50)
    with pytest.raises(RuntimeError):
        whole.resize_(-1)
    for sizes in (
        (1 << 32, 1 << 32),
        (1 << 62, 4),
        ((1 << 63) - 1, 2),
    ):  # products that no int64 holds; two wrap to 0
        with pytest.raises(RuntimeError, match="overflow"):
            whole.resize_(sizes)
    assert whole.shape == (24,)
    assert whole.tolist() == [3] * 24


def test_a_tensor_whose_memory_was_taken_is_refused(device_type: str) -> None:
    for left in (0, 8):
        x = torch.ones(24, device=device_type)
        x.untyped_storage().resize_(left)
        for use in (
            lambda x: x.fill_(1),
            lambda x: x.cpu(),
            lambda x: x + 1,
            lambda x: x.view(4, 6) @ x.view(6, 4),
        ):
            with pytest.raises(RuntimeError, match="its memory was resized"):
                use(x)
        x.untyped_storage().resize_(96)
        assert x.fill_(2).sum().item() == 48


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_a_result_takes_its_shape_whatever_it_is_written_into(device_type: str) -> None:
    a = torch.randn(30, 30)
    sort_out = (
        "sort",
        lambda a, out: torch.sort(a, out=(out, torch.ones(5, dtype=torch.long, device=a.device))),
    )
    cases: list[tuple[str, Callable[..., object]]] = [
        ("sum", lambda a, out: torch.add(a, a, out=out)),
        ("product", lambda a, out: torch.mm(a, a, out=out)),
        ("cat", lambda a, out: torch.cat([a, a], out=out)),
        ("shape from values", lambda a, out: torch.masked_select(a, a > 0, out=out)),
        sort_out,
    ]
    for name, call in cases:
        for given in (0, 3, 30, 5000):  # the CPU warns where elements are given up
            expected, got = torch.ones(given), torch.ones(given, device=device_type)
            call(a, expected)
            call(a.to(device_type), got)
            assert got.shape == expected.shape, (name, given)
            torch.testing.assert_close(got.cpu(), expected)
    rows = torch.ones(3, dtype=torch.long, device=device_type)
    torch.nonzero(a.to(device_type), out=rows)
    assert torch.equal(rows.cpu(), torch.nonzero(a))
    with pytest.raises(RuntimeError, match="dtype"):
        torch.mm(a.to(device_type), a.to(device_type), out=rows)


def test_memory_set_beyond_its_end_grows_as_on_the_host(device_type: str) -> None:
    for offset, size, stride in (
        (0, (4,), (100000,)),
        (0, (1 << 18,), (1,)),
        (1 << 18, (2,), (1,)),
        (1, (2, 2), (0, 9)),
    ):
        source = torch.ones(4, device=device_type)
        neighbours = [torch.ones(4, device=device_type) for _ in range(8)]
        y = torch.empty(0, device=device_type).set_(source.untyped_storage(), offset, size, stride)
        y.fill_(7)
        host = torch.empty(0).set_(torch.ones(4).untyped_storage(), offset, size, stride)
        assert y.untyped_storage().nbytes() == host.untyped_storage().nbytes()
        assert torch.equal(y.cpu(), host.fill_(7))
        assert all(n.tolist() == [1] * 4 for n in neighbours)
    source = torch.ones(4, device=device_type)
    assert torch.empty(0, device=device_type).set_(source.untyped_storage(), 1, (3,)).shape == (3,)
    with pytest.raises(RuntimeError, match="strides"):
        torch.empty(0, device=device_type).set_(source.untyped_storage(), 3, (2,), (-1,))


def _attention(device: str, heads: int, kv_heads: int, **changes: torch.Tensor) -> list[Callable[[], None]]:
    """A decode and an extend of one token each, over 16 slots."""
    parts = {
        "q": torch.randn(2, heads, 8),
        "k": torch.randn(16, kv_heads, 8),
        "v": torch.randn(16, kv_heads, 8),
        "table": torch.zeros(4, 8, dtype=torch.int32),
        "out": torch.zeros(2, heads, 8),
        "map": None,
        **changes,
    }
    q, k, v, table, out, slot_map = (t if t is None else t.to(device) for t in parts.values())
    rows, lens = (
        torch.zeros(2, dtype=torch.long, device=device),
        torch.ones(2, dtype=torch.long, device=device),
    )

    def decode() -> None:
        kernels.paged_decode(q, k, v, table, rows, lens, out, 1.0, 0.0, -1, None, slot_map)

    def extend() -> None:
        kernels.paged_extend(
            q, k, v, table, rows, lens, lens * 0, lens, out, 1.0, 0.0, -1, True, None, slot_map
        )

    return [decode, extend]


def _finish(call: Callable[[], object]) -> None:
    call()
    torch.accelerator.synchronize()


def _empty_calls(device: str) -> None:
    for heads, kv_heads in ((0, 2), (4, 2)):
        for call in _attention(device, heads, kv_heads):
            _finish(call)
    for heads, kv_heads in ((0, 0), (2, 0)):
        for call in _attention(device, heads, kv_heads):
            with pytest.raises(RuntimeError, match="shapes do not fit"):
                _finish(call)
    nothing, slots = torch.zeros(2, 0, device=device), torch.zeros(2, dtype=torch.long, device=device)
    with pytest.raises(RuntimeError, match="head_size must be positive"):
        _finish(lambda: kernels.rotary_embedding(slots, nothing, nothing, 0, nothing, True))
    _finish(lambda: kernels.rms_norm(nothing, torch.zeros(0, device=device), 1e-6, nothing))
    _finish(lambda: kernels.silu_and_mul(nothing, nothing))
    out = torch.ones(2, 3, device=device)
    _finish(lambda: kernels.linear(nothing, torch.zeros(3, 0, device=device), None, out))
    assert out.sum().item() == 0
    x, states = torch.ones(2, 4, device=device), torch.ones(2, 4, 1, device=device)
    weight = torch.ones(4, 0, device=device)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        _finish(lambda: kernels.short_conv(x, weight, None, None, slots, None, states, x.clone(), False))


def test_no_heads_no_channels_and_no_weights(device_type: str) -> None:
    for device in ("cpu", device_type):
        _empty_calls(device)
    for shape in ((0, 2, 3), (2, 2, 0), (2, 0, 3), (2, 2, 9)):
        weight, x = torch.ones(shape), torch.ones(1, shape[1], 6)
        try:
            expected: torch.Tensor | str = F.conv1d(x, weight)
        except RuntimeError as error:
            expected = str(error)
        if isinstance(expected, str):
            with pytest.raises(RuntimeError):
                _finish(lambda: F.conv1d(x.to(device_type), weight.to(device_type)))  # noqa: B023
        else:
            assert torch.equal(F.conv1d(x.to(device_type), weight.to(device_type)).cpu(), expected)


def test_a_slot_that_does_not_fit_is_no_other_slot(device_type: str) -> None:
    for device in ("cpu", device_type):
        for slot in ((1 << 32) + 3, 1 << 31, -1, 16):
            for call in _attention(device, 2, 2, map=torch.full((8,), slot)):
                with pytest.raises(IndexError, match=f"slot_map names slot {slot}, outside"):
                    _finish(call)
            if abs(slot) <= 16:
                for call in _attention(device, 2, 2, table=torch.full((4, 8), slot, dtype=torch.int32)):
                    with pytest.raises(IndexError, match=f"req_to_token names slot {slot}, outside"):
                        _finish(call)


def test_kernels_refuse_tensors_without_values(device_type: str) -> None:
    """Of torch's own operators, those with a tensor on meta do nothing on any device: torch decides that."""
    for device in ("cpu", device_type):
        x, m = torch.ones(3, 6, device=device), torch.ones(3, 6, device="meta")
        out = torch.ones(3, 3, device=device)
        for call in (
            lambda: kernels.silu_and_mul(m, out),  # noqa: B023
            lambda: kernels.silu_and_mul(x, torch.ones(3, 3, device="meta")),  # noqa: B023
            lambda: kernels.rms_norm(x, m[0], 1e-6, x),  # noqa: B023
        ):
            with pytest.raises(RuntimeError, match=r"expected all tensors on one device, but found .*meta"):
                call()
        assert out.sum().item() == 9
    kernels.silu_and_mul(torch.ones(3, 6, device="meta"), torch.ones(3, 3, device="meta"))


def test_tensors_of_two_devices_are_refused(device_type: str) -> None:
    a = torch.ones(3, 3, device=f"{device_type}:0")
    b = torch.full((3, 3), 2.0, device=f"{device_type}:1")
    six = torch.ones(3, 6, device=a.device)
    calls: dict[str, Callable[[], object]] = {
        "product": lambda: torch.mm(a, b),
        "linear": lambda: F.linear(a, b),
        "addmm": lambda: torch.addmm(b, a, a),
        "cat": lambda: torch.cat([a, b]),
        "where": lambda: torch.where(a > 0, a, b),
        "out": lambda: torch.add(a, a, out=b),
        "in place": lambda: a.add_(b),
        "index": lambda: a[torch.zeros(2, dtype=torch.long, device=b.device)],
        "embedding": lambda: F.embedding(torch.tensor([1], device=b.device), a),
        "convolution": lambda: F.conv1d(a[None], torch.ones(2, 3, 3, device=b.device)),
        "kernel": lambda: kernels.silu_and_mul(six, b),
        "generator": lambda: torch.rand(3, device=a.device, generator=torch.Generator(b.device)),
    }
    for call in calls.values():
        with pytest.raises((RuntimeError, IndexError), match=r"device"):
            _finish(call)
    assert b.sum().item() == 18
    assert a.sum().item() == 9


def test_a_copy_to_another_device_reads_what_was_there(device_type: str) -> None:
    """What the source's stream does next waits for the copy."""
    a = torch.zeros(1 << 20, device=f"{device_type}:0")
    busy = torch.randn(600, 600, device=f"{device_type}:1")
    for value in range(1, 6):
        a.fill_(value)
        for _ in range(4):
            busy = (busy @ busy) * 1e-3
        b = a.to(f"{device_type}:1")
        a.fill_(-1)
        assert b.cpu().unique().tolist() == [value]
