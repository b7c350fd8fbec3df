"""Level 3: the transfer engine: keys and values that one engine computed, written into the memory of another."""

from __future__ import annotations

import itertools
import random
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, Row, check, expect, rows
from sglang_platform.conformance.fixtures.brought_classes import transfer_engine_class
from sglang_platform.conformance.fixtures.kept import expect_nothing_kept
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_HOST = "127.0.0.1"
_HOST_OF_128_BITS = "::1"
"""SGLang writes the session of an engine there as [::1]:PORT."""

_ROWS, _WIDTH = 4096, 128
_TIMES, _SECONDS = 5, 20
"""Of transfers in both directions."""

_THREADS = 4
"""SGLang sends from a pool of threads (disaggregation/mooncake/conn.py, 0.5.23)."""


class _Side:
    """An engine of a worker with two buffers on the device and one of the host, [_ROWS, _WIDTH] float32 each."""

    def __init__(self, cls: Any, subject: Subject, generator: torch.Generator, host: str) -> None:
        def rows() -> torch.Tensor:
            return torch.randn(_ROWS, _WIDTH, generator=generator)

        self._on_device = [rows().to(subject.device) for _ in range(2)]
        self.buffers = [*self._on_device, rows()]
        self.engine = cls(self._memory_at, torch.device(subject.device).type)
        self.answers_zero("initialize", host, "P2PHANDSHAKE", "rdma", "")
        self.answers_zero(
            "batch_register_memory",
            [one.data_ptr() for one in self.buffers],
            [one.nbytes for one in self.buffers],
        )
        port = self.engine.get_rpc_port()
        self.session = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def answers_zero(self, method: str, *arguments: Any) -> None:
        """Call it. Raises CheckFailed where it is not done."""
        answer = getattr(self.engine, method)(*arguments)
        expect(answer == 0, f"{method}() answers {answer!r}, and 0 is done")

    def _memory_at(self, address: int) -> torch.Tensor | None:
        for one in self._on_device:
            if one.data_ptr() <= address < one.data_ptr() + one.nbytes:
                return one
        return None

    def address(self, buffer: int, row: int) -> int:
        return int(self.buffers[buffer].data_ptr()) + row * _WIDTH * 4

    def held(self) -> list[torch.Tensor]:
        return [one.cpu().clone() for one in self.buffers]


def _sides(subject: Subject, host: str = _HOST, peers: int = 1) -> list[_Side]:
    """Who sends, and its peers."""
    cls = transfer_engine_class(subject)
    if subject.platform.device_type == "cuda":
        raise NotApplicable("SGLang's own engines know memory of the device type cuda, and carry it")
    generator = subject.torch_rng()
    return [_Side(cls, subject, generator, host) for _ in range(1 + peers)]


@dataclass(frozen=True)
class Sent:
    """`blocks` of `rows` consecutive rows in one call; `threads` such calls at once, of other rows each, between
    engines at `host`."""

    blocks: int
    rows: int = 1
    threads: int = 1
    host: str = _HOST
    side_by_side: bool = False
    """Here; at the peer they are apart."""
    short: int = 0
    """Bytes of each block that stay here."""
    others: int = 0
    """Peers that get a row each after the first."""
    both_ways: bool = False
    """The peer sends as much to here at the same time, again and again."""


def sent(subject: Subject, rng: random.Random) -> Iterator[Sent]:
    yield from (Sent(0), Sent(1), Sent(2), Sent(65), Sent(2000), Sent(1, _ROWS), Sent(40, 100))
    yield Sent(40, 2, side_by_side=True)
    yield Sent(9, 2, short=44)
    yield Sent(3, others=2)
    yield Sent(1000, threads=_THREADS)
    yield Sent(rng.randrange(3, 60), rng.randrange(2, 60))
    if _has(_HOST_OF_128_BITS):
        yield Sent(9, host=_HOST_OF_128_BITS)
    yield Sent(1, _ROWS, both_ways=True)


def _has(host: str) -> bool:
    try:
        with socket.create_server((host, 0), family=socket.AF_INET6):
            return True
    except OSError:  # this machine has no such network
        return False


_check = partial(check, level=Level.MEMORY, hosts=("none",), seconds=120)


@_check(
    cases=sent,
    fix="write block i of a call from addresses[i] to peer_addresses[i], lengths[i] bytes of it, as many as there are;"
    " answer 0 when the last one is there, also for threads that send at once",
)
def transfers_reach_their_places(subject: Subject, case: Sent) -> None:
    """`batch_transfer_sync_write()` brings each of 0 to 2,000 blocks, of the device's memory and the host's, of no
    bytes, of a part of a row, of a row and of all of a buffer, to its own address at the peer, from four threads at
    once too, between addresses of IPv6, to several peers, and while the peer sends to here; when it answers 0 they are
    there, and nothing else has changed on either side."""
    here, there, *others = _sides(subject, case.host, 1 + case.others)
    if case.both_ways:
        _send_both_ways(here, there)
        return
    source = random.Random(subject.seed)
    kept, wanted = here.held(), there.held()
    calls: list[tuple[list[int], list[int], list[int]]] = []
    places = [(buffer, row) for buffer in range(3) for row in range(0, _ROWS - case.rows + 1, case.rows)]
    chosen = source.sample(places, min(case.blocks * case.threads, len(places)))
    for at in range(case.threads):
        moves = []
        for to, place in chosen[at :: case.threads]:
            from_, row = source.randrange(3), source.randrange(_ROWS - case.rows + 1)
            if case.side_by_side:
                from_, row = 0, len(moves) * case.rows
            size = case.rows * _WIDTH * 4 - case.short
            target, source_rows = (
                rows[first : first + case.rows].view(torch.uint8).view(-1)[:size]
                for rows, first in ((wanted[to], place), (kept[from_], row))
            )
            target.copy_(source_rows)
            moves.append((here.address(from_, row), there.address(to, place), size))
            if len(moves) == 1:  # as of a layer that keeps no keys for an indexer
                moves.append((here.address(0, 1), there.address(0, 1), 0))
        calls.append(tuple(map(list, zip(*moves, strict=True))) if moves else ([], [], []))  # type: ignore[arg-type]
    subject.synchronize()
    with ThreadPoolExecutor(case.threads) as threads:
        answers = list(
            threads.map(lambda one: here.engine.batch_transfer_sync_write(there.session, *one), calls)
        )
    expect(answers == [0] * case.threads, f"batch_transfer_sync_write() answers {answers}, and 0 is done")
    for at, other in enumerate(others):
        of_another = other.held()
        of_another[1][at] = kept[0][at + 5]
        row = [here.address(0, at + 5)], [other.address(1, at)], [_WIDTH * 4]
        here.answers_zero("batch_transfer_sync_write", other.session, *row)
        _compare(other.held(), of_another, f"peer {at + 2}'s")
    _compare(there.held(), wanted, "the peer's")
    _compare(here.held(), kept, "the sender's")


def _send_both_ways(here: _Side, there: _Side) -> None:
    """Buffer 0 of each into buffer 1 of the other, at the same time."""
    wanted = [
        (mine[0], other[0], mine[2]) for mine, other in itertools.permutations((here.held(), there.held()))
    ]
    size, answers = _ROWS * _WIDTH * 4, []
    together = threading.Barrier(2)

    def send(from_: _Side, to: _Side) -> None:
        for _ in range(_TIMES):
            together.wait(_SECONDS)
            blocks = [from_.address(0, 0)], [to.address(1, 0)], [size]
            answers.append(from_.engine.batch_transfer_sync_write(to.session, *blocks))

    senders = [
        threading.Thread(target=send, args=sides, daemon=True)
        for sides in itertools.permutations((here, there))
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(_SECONDS)
    expect(
        not any(sender.is_alive() for sender in senders),
        f"two engines that send {size} bytes to each other at once are not done after {_SECONDS} s",
        fix="receive in a thread of its own, and hold no lock while it waits for the peer",
    )
    expect(
        answers == [0] * 2 * _TIMES, f"of two engines that send to each other at once answers are {answers}"
    )
    for side, held, whose in zip((here, there), wanted, ("the sender's", "the peer's"), strict=True):
        _compare(side.held(), list(held), whose)


@_check(
    fix="connect to a peer once and keep that connection, or close it after each transfer; drop the list of blocks"
)
def transfers_keep_nothing(subject: Subject) -> None:
    """Transfers to one peer, one after the other, leave nothing: neither connections nor memory grow with their
    number."""
    here, there = _sides(subject)
    size = _WIDTH * 4

    def sent_once(number: int) -> None:
        row = number % _ROWS
        blocks = [here.address(0, row)], [there.address(1, row)], [size]
        here.answers_zero("batch_transfer_sync_write", there.session, *blocks)

    expect_nothing_kept(subject, sent_once, "transfers")


_REFUSED = (
    *("the peer is gone", "past the end at the peer", "not registered at the peer"),
    *("past the end here", "not registered here"),
)
"""What is wrong with the second of three blocks, or with the peer."""


@_check(
    cases=rows(_REFUSED),
    seconds=300,
    fix="answer another number than 0, or raise, where a block did not arrive: SGLang then ends the request in words;"
    " keep to registered memory, and let the connection serve on",
)
def transfers_that_fail_say_so(subject: Subject, case: Row) -> None:
    """A transfer or a probe to a peer that is gone, and a transfer of which a block lies outside of registered
    memory on either side, is not answered with 0; memory that is not registered stays as it was, and the next
    transfer arrives."""
    here, there = _sides(subject)
    size = _WIDTH * 4
    lost = there if case.row.endswith("at the peer") else here
    if case.row.startswith("not registered"):
        lost.answers_zero("batch_unregister_memory", [lost.address(1, 0)])
    session = _nobody() if case.row == "the peer is gone" else there.session
    blocks = [_place((0, 3), case, here is lost), _place((0, 5), case, there is lost)]
    sent_from = [here.address(0, 1), here.address(*blocks[0]), here.address(2, 1)]
    sent_to = [there.address(0, 2), there.address(*blocks[1]), there.address(2, 2)]
    before = there.held()[1]
    write = here.engine.batch_transfer_sync_write
    said = _answer(write, session, sent_from, sent_to, [size, 2 * size, size])
    expect(said != 0, f"{case.row}: batch_transfer_sync_write() answers 0, and not all blocks are there")
    if case.row == "the peer is gone":
        probes = [_answer(here.engine.send_probe, one) for one in (session, there.session)]
        expect(
            probes[0] != 0 and probes[1] == 0,
            f"send_probe() answers {probes[0]!r} for a peer that is gone and {probes[1]!r} for one that is there",
            fix="answer 0 where the peer answers, another number where it does not: SGLang asks whether an engine that"
            " failed is back",
        )
    expect(
        torch.equal(there.held()[1], before),
        f"{case.row}: memory that the transfer may not write has changed",
    )
    again = _answer(write, there.session, [here.address(2, 7)], [there.address(2, 9)], [size])
    expect(again == 0, f"{case.row}: the next transfer, of registered memory, answers {again!r}")
    expect(
        torch.equal(there.held()[2][9], here.held()[2][7]),
        f"{case.row}: the next transfer is not there, and is answered with 0",
    )


def _place(place: tuple[int, int], case: Row, is_lost: bool) -> tuple[int, int]:
    """The place of a block of two rows, or the one that is wrong."""
    if not is_lost or case.row == "the peer is gone":
        return place
    return (0, _ROWS - 1) if case.row.startswith("past the end") else (1, 4)


def _answer(ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except Exception as error:  # noqa: BLE001 - SGLang takes it for a failed transfer
        return error


def _nobody() -> str:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return f"{_HOST}:{free.getsockname()[1]}"


def _compare(got: list[torch.Tensor], wanted: list[torch.Tensor], whose: str) -> None:
    for at, (one, other) in enumerate(zip(got, wanted, strict=True)):
        wrong = (one != other).any(1).nonzero().flatten().tolist()
        expect(
            not wrong,
            f"{len(wrong)} rows of {whose} buffer {at} are not what they must be, the first of them {wrong[:4]}",
        )
