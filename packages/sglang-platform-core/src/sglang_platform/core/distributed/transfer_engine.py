"""The transfer engine: copies registered memory between engines, for prefill-decode disaggregation.

The interface is that of Mooncake's engine, as SGLang's transfer managers call it: the prefill side writes to addresses
that the decode side has sent. `TransferEngine` works on any device without RDMA: it copies to the host, sends over TCP,
and copies to the device.
"""

from __future__ import annotations

import ctypes
import logging
import socket
import struct
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sglang_platform.core.contract.parts import Part
from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError

if TYPE_CHECKING:
    import torch

__all__ = ["TransferEngine"]

_logger = logging.getLogger(__name__)
_sent = counter("transfer.bytes_sent")
_received = counter("transfer.bytes_received")

_HELLO = b"sglang-platform transfer 1\n"
_COUNT = struct.Struct("<Q")
_BLOCK = struct.Struct("<QQ")
_DONE, _REFUSED = b"\x00", b"\x01"
_FAILED = -1
_TIMEOUT_SECONDS = 120.0


class _Region(NamedTuple):
    start: int
    length: int
    memory: Any
    """The bytes, [length] uint8 on the device; None for memory of the host."""


class TransferEngine(Part):
    """The transfer engine of a worker. `memory_at(address)` returns the device tensor that contains an address, None
    for host memory; `device` is the worker's device."""

    def __init__(self, memory_at: Callable[[int], torch.Tensor | None], device: Any) -> None:
        self._memory_at, self._device = memory_at, device
        self._regions: list[_Region] = []
        self._changing = threading.Lock()
        self._peers = threading.local()
        self._listener: socket.socket | None = None

    def initialize(self, hostname: str, metadata: str, protocol: str, device_name: str) -> int:
        """Listen on `hostname`; the other arguments are ignored. Returns 0."""
        host = hostname.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        threading.Thread(target=self._accept, name="transfer-engine", daemon=True).start()
        return 0

    def get_rpc_port(self) -> int:
        """The port of this engine; host name and port form the session name under which other engines reach it."""
        assert self._listener is not None, "initialize() comes first"
        return int(self._listener.getsockname()[1])

    # Memory

    def register_memory(self, address: int, length: int) -> int:
        """Register memory that transfers may read and write. Raises PlatformError for memory that this process does not
        own."""
        tensor = self._memory_at(address)
        memory = None
        if tensor is not None:
            whole = tensor.reshape(-1).view(_uint8())
            offset = address - tensor.data_ptr()
            memory = whole[offset : offset + length]
            if memory.numel() != length:
                raise PlatformError(
                    f"{length} bytes at {address:#x} cannot be registered for transfers",
                    why=f"the tensor there ends after {memory.numel()}",
                )
        elif not _readable(address, length):
            raise PlatformError(
                f"{length} bytes at {address:#x} cannot be registered for transfers",
                why="they lie in no buffer of the KV pools, nor in memory of the host that this process may use",
                fix="get_contiguous_buf_infos() of the pool must tell addresses of its own contiguous buffers",
            )
        with self._changing:
            others = [region for region in self._regions if region.start != address]
            self._regions = sorted([*others, _Region(address, length, memory)], key=lambda one: one.start)
        return 0

    def batch_register_memory(self, addresses: Sequence[int], lengths: Sequence[int]) -> int:
        """`register_memory` for each."""
        for address, length in zip(addresses, lengths, strict=True):
            self.register_memory(address, length)
        return 0

    def unregister_memory(self, address: int) -> int:
        """Forget the region that begins at `address`; returns 0, or -1 if there is none."""
        with self._changing:
            left = [region for region in self._regions if region.start != address]
            found = len(left) < len(self._regions)
            self._regions = left
        return 0 if found else _FAILED

    def batch_unregister_memory(self, addresses: Sequence[int]) -> int:
        """`unregister_memory` for each."""
        return min([self.unregister_memory(address) for address in addresses], default=0)

    # Sending

    def transfer_sync_write(self, session: str, address: int, peer_address: int, length: int) -> int:
        """One block: see `batch_transfer_sync_write`."""
        return self.batch_transfer_sync_write(session, [address], [peer_address], [length])

    def batch_transfer_sync_write(
        self, session: str, addresses: Sequence[int], peer_addresses: Sequence[int], lengths: Sequence[int]
    ) -> int:
        """Write blocks of this worker's memory to the engine `session`; returns 0 when all have arrived. Returns -1 on
        failure; any part of the blocks may then have arrived."""
        try:
            payload = [
                self._read(address, length) for address, length in zip(addresses, lengths, strict=True)
            ]
            blocks = b"".join(map(_BLOCK.pack, peer_addresses, lengths))
            peer = self._peer(session)
            peer.sendall(_COUNT.pack(len(payload)) + blocks)
            for block in payload:
                peer.sendall(block)
            done = _exactly(peer, 1) == _DONE
        except (OSError, EOFError, PlatformError) as error:
            _logger.warning("the transfer of %d blocks to %s failed: %s", len(lengths), session, error)
            self._forget(session)
            return _FAILED
        if done:
            _sent.add(sum(lengths))
        return 0 if done else _FAILED

    def send_probe(self, session: str) -> int:
        """Returns 0 if the engine `session` answers, otherwise -1."""
        return self.batch_transfer_sync_write(session, [], [], [])

    def _peer(self, session: str) -> socket.socket:
        known: dict[str, socket.socket] = self._peers.__dict__.setdefault("sockets", {})
        if session not in known:
            host, _, port = session.rpartition(":")
            peer = socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(_HELLO)
            known[session] = peer
        return known[session]

    def _forget(self, session: str) -> None:
        peer = self._peers.__dict__.get("sockets", {}).pop(session, None)
        if peer is not None:
            peer.close()

    # Receiving

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._receive, args=(peer,), daemon=True).start()

    def _receive(self, peer: socket.socket) -> None:
        with peer:
            try:
                if _exactly(peer, len(_HELLO)) != _HELLO:
                    return
                while True:
                    peer.sendall(self._receive_blocks(peer))
            except (OSError, EOFError):
                return  # the peer has disconnected, and retries over a new connection

    def _receive_blocks(self, peer: socket.socket) -> bytes:
        (count,) = _COUNT.unpack(_exactly(peer, _COUNT.size))
        blocks = [_BLOCK.unpack(_exactly(peer, _BLOCK.size)) for _ in range(count)]
        answer = _DONE
        for address, length in blocks:
            content = _exactly(peer, length)  # read refused blocks too, to stay in step with the stream
            try:
                self._write(address, content)
            except PlatformError as error:
                _logger.warning("a block was refused: %s", error)
                answer = _REFUSED
        self._synchronize()
        _received.add(sum(length for _, length in blocks) if answer == _DONE else 0)
        return answer

    # Bytes

    def _read(self, address: int, length: int) -> Any:
        region, offset = self._region(address, length)
        if region.memory is None:
            return ctypes.string_at(address, length)
        return region.memory[offset : offset + length].cpu().numpy()

    def _write(self, address: int, content: bytearray) -> None:
        region, offset = self._region(address, len(content))
        if region.memory is None:
            ctypes.memmove(address, (ctypes.c_char * len(content)).from_buffer(content), len(content))
        elif content:
            import torch  # a worker has it by now

            region.memory[offset : offset + len(content)].copy_(torch.frombuffer(content, dtype=torch.uint8))

    def _region(self, address: int, length: int) -> tuple[_Region, int]:
        regions = self._regions
        at = bisect_right(regions, address, key=lambda one: one.start) - 1
        if at >= 0 and address + length <= regions[at].start + regions[at].length:
            return regions[at], address - regions[at].start
        raise PlatformError(
            f"{length} bytes at {address:#x} are not registered for transfers",
            why="a transfer reads and writes registered memory only",
        )

    def _synchronize(self) -> None:
        import torch

        device = torch.device(self._device)
        if device.type != "cpu":
            torch.get_device_module(device.type).synchronize()


def _uint8() -> Any:
    import torch

    return torch.uint8


def _exactly(peer: socket.socket, length: int) -> bytearray:
    """Read `length` bytes; raises EOFError if the peer closes the connection earlier."""
    content = bytearray(length)
    view = memoryview(content)
    while view:
        got = peer.recv_into(view)
        if not got:
            raise EOFError("the connection ended")
        view = view[got:]
    return content


def _readable(address: int, length: int) -> bool:
    """True if the process may read and write the whole range, or if the system does not tell."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return True
    for line in lines:  # by address, ascending
        span, access, *_ = line.split(maxsplit=2)
        start, end = (int(number, 16) for number in span.split("-"))
        if start <= address < end:
            if not access.startswith("rw"):
                return False
            if address + length <= end:
                return True
            length -= end - address
            address = end
    return False
