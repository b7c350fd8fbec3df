"""The transfer engine: bytes go where they were sent, and nowhere else."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sglang_platform.core.counters import snapshot
from sglang_platform.core.distributed.transfer_engine import TransferEngine
from sglang_platform.core.errors import PlatformError


class Side:
    """One engine with two buffers of a pool, and one in memory of the host."""

    def __init__(self, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        self.pool = [torch.randn(64, 3, 4, generator=random) for _ in range(2)]
        self.aux = torch.randn(8, 16, generator=random)
        self.engine = TransferEngine(self._memory_at, "cpu")
        assert self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
        buffers = [*self.pool, self.aux]
        self.engine.batch_register_memory([b.data_ptr() for b in buffers], [b.nbytes for b in buffers])
        self.session = f"127.0.0.1:{self.engine.get_rpc_port()}"

    def _memory_at(self, address: int) -> torch.Tensor | None:
        for tensor in self.pool:
            if tensor.data_ptr() <= address < tensor.data_ptr() + tensor.nbytes:
                return tensor
        return None


@pytest.fixture
def sides() -> tuple[Side, Side]:
    return Side(0), Side(1)


def row(tensor: torch.Tensor, index: int) -> int:
    return tensor.data_ptr() + index * tensor[0].nbytes


def test_rows_arrive_where_they_were_sent_and_nothing_else_changes(sides: tuple[Side, Side]) -> None:
    here, there = sides
    before = [tensor.clone() for tensor in (*there.pool, there.aux)]
    size = here.pool[0][0].nbytes
    sent = snapshot()["transfer.bytes_sent"]
    done = here.engine.batch_transfer_sync_write(
        there.session,
        [row(here.pool[0], 5), row(here.pool[1], 63), row(here.aux, 2)],
        [row(there.pool[0], 8), row(there.pool[1], 0), row(there.aux, 7)],
        [3 * size, size, here.aux[0].nbytes],
    )
    assert done == 0
    before[0][8:11] = here.pool[0][5:8]
    before[1][0] = here.pool[1][63]
    before[2][7] = here.aux[2]
    for got, expected in zip((*there.pool, there.aux), before, strict=True):
        assert torch.equal(got, expected)
    assert snapshot()["transfer.bytes_sent"] - sent == 4 * size + here.aux[0].nbytes


def test_one_connection_serves_many_transfers(sides: tuple[Side, Side]) -> None:
    here, there = sides
    for index in range(20):
        assert (
            here.engine.transfer_sync_write(
                there.session, row(here.pool[0], index), row(there.pool[0], index), here.pool[0][0].nbytes
            )
            == 0
        )
    assert torch.equal(there.pool[0][:20], here.pool[0][:20])
    assert here.engine.send_probe(there.session) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda side: (side.pool[0].data_ptr() - 4, 8),
        lambda side: (side.pool[0].data_ptr() + side.pool[0].nbytes - 4, 8),
        lambda side: (0, 8),
    ],
    ids=["before a buffer", "over its end", "nowhere"],
)
def test_memory_that_is_not_registered_is_neither_read_nor_written(
    sides: tuple[Side, Side], wrong: Callable[[Any], tuple[int, int]]
) -> None:
    here, there = sides
    good = row(here.pool[0], 1), row(there.pool[0], 1)
    before = there.pool[0].clone()
    address, length = wrong(there)
    assert here.engine.transfer_sync_write(there.session, good[0], address, length) == -1
    assert torch.equal(there.pool[0], before)
    address, length = wrong(here)
    assert here.engine.transfer_sync_write(there.session, address, good[1], length) == -1
    assert torch.equal(there.pool[0], before)
    assert here.engine.transfer_sync_write(there.session, *good, 8) == 0, "the connection still serves"


def test_a_peer_that_is_gone_is_told_by_the_answer(sides: tuple[Side, Side]) -> None:
    here, _ = sides
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    assert here.engine.send_probe(nobody) == -1


def test_a_stranger_is_not_served(sides: tuple[Side, Side]) -> None:
    here, _ = sides
    with socket.create_connection(("127.0.0.1", here.engine.get_rpc_port()), 10) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""


def test_only_memory_of_this_process_is_registered(sides: tuple[Side, Side]) -> None:
    here, _ = sides
    with pytest.raises(PlatformError, match="cannot be registered"):
        here.engine.register_memory(16, 64)
    with pytest.raises(PlatformError, match="ends after"):
        here.engine.register_memory(row(here.pool[0], 60), here.pool[0].nbytes)


def test_forgotten_memory_is_no_longer_written(sides: tuple[Side, Side]) -> None:
    here, there = sides
    assert there.engine.batch_unregister_memory([there.pool[0].data_ptr()]) == 0
    assert there.engine.unregister_memory(there.pool[0].data_ptr()) == -1
    assert (
        here.engine.transfer_sync_write(there.session, row(here.pool[0], 0), row(there.pool[0], 0), 8) == -1
    )
