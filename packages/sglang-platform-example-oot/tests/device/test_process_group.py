"""Collectives of two processes on the device: `programs/collectives.py`, once per rank."""

from __future__ import annotations

import socket

import pytest


@pytest.mark.long
@pytest.mark.usefixtures("native")
def test_collectives_of_two_processes(start) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    ranks = [start("collectives.py", str(rank), **variables) for rank in range(2)]
    try:
        errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, error in zip(ranks, errors, strict=True):
        assert rank.returncode == 0, error
