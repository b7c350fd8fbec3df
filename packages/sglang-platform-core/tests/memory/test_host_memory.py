"""Rows between a device's pool and host memory: the fewest copies, in every layout that the host uses."""

from __future__ import annotations

import pytest
import torch

from sglang_platform.core.memory.host_memory import HostMemory, Run, runs


class Counted(HostMemory):
    copies = 0

    def copy(self, pairs):
        pairs = list(pairs)
        self.copies += len(pairs)
        assert all(target.is_contiguous() and source.is_contiguous() for target, source in pairs)
        super().copy(pairs)


@pytest.fixture
def memory() -> Counted:
    return Counted(pins=False)


def slots(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ((), (), []),
        ((5,), (9,), [(5, 9, 1)]),
        ((5, 6, 7), (0, 1, 2), [(5, 0, 3)]),
        ((5, 6, 7), (0, 1, 3), [(5, 0, 2), (7, 3, 1)]),
        ((5, 6, 9, 10), (0, 1, 2, 3), [(5, 0, 2), (9, 2, 2)]),
        ((3, 2, 1), (3, 2, 1), [(3, 3, 1), (2, 2, 1), (1, 1, 1)]),
        ((4, 4), (0, 1), [(4, 0, 1), (4, 1, 1)]),
    ],
)
def test_runs_go_up_on_both_sides(source, target, found) -> None:
    assert list(runs(slots(*source), slots(*target))) == [Run(*one) for one in found]


def test_slots_of_two_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 slots cannot be copied to 3"):
        list(runs(slots(1, 2), slots(1, 2, 3)))


def test_slots_of_every_layer_are_copied_run_by_run(memory: Counted) -> None:
    device = [torch.randn(40, 2, 3) for _ in range(4)]
    host = [torch.zeros(64, 2, 3) for _ in range(4)]
    from_, to = slots(3, 4, 5, 20, 21, 8), slots(10, 11, 12, 13, 14, 63)
    memory.copy_slots(device, host, from_, to)
    for there, here in zip(host, device, strict=True):
        assert torch.equal(there[to], here[from_])
        there[to] = 0
        assert not there.any()
    assert memory.copies == 4 * 3


@pytest.mark.parametrize("parts", [1, 2], ids=["latent rows", "keys and values"])
def test_pages_go_out_and_come_back_layer_by_layer(memory: Counted, parts: int) -> None:
    page, layers = 4, 3
    device = [torch.randn(32, 2, 3) for _ in range(parts * layers)]
    host = [torch.zeros(6, layers, page, 2, 3) for _ in range(parts)]
    from_ = torch.cat([torch.arange(8, 12), torch.arange(28, 32)])
    to = torch.cat([torch.arange(20, 24), torch.arange(4, 8)])
    memory.copy_pages_out(device, host, from_, to, page)
    for part in range(parts):
        for layer in range(layers):
            rows = device[part * layers + layer]
            assert torch.equal(host[part][5, layer], rows[8:12])
            assert torch.equal(host[part][1, layer], rows[28:32])
            assert not host[part][[0, 2, 3, 4]].any()
    back = [torch.zeros(32, 2, 3) for _ in range(parts)]
    memory.copy_pages_in(host, back, to, slots(*range(16, 24)), 1, page)
    for part in range(parts):
        expected = torch.zeros(32, 2, 3)
        expected[16:24] = device[part * layers + 1][from_]
        assert torch.equal(back[part], expected)


def test_half_a_page_is_refused(memory: Counted) -> None:
    with pytest.raises(ValueError, match="not the same whole pages"):
        memory.copy_pages_in([torch.zeros(2, 1, 4, 1)], [torch.zeros(8, 1)], slots(0, 1), slots(0, 1), 0, 4)


def test_memory_is_locked_where_the_device_copies_from_such() -> None:
    tensor = HostMemory(pins=False).allocate((3, 4), torch.float16)
    assert (tensor.shape, tensor.dtype, tensor.device.type) == ((3, 4), torch.float16, "cpu")
    assert not tensor.is_pinned()
    assert HostMemory(pins=False).register(tensor) is False
