"""What share of the copy bandwidth a decode kernel can reach, from its machine code; nothing here was measured.

    share = min(1, issue, in flight) * balance * traffic

- issue: the bytes of a turn over the time that a processor needs to issue its instructions, and over the programs that
  read the same rows where more query heads share them than one program takes. Schedulers reach
  `ISSUED` of their slots; on AMD a SIMD takes four clocks for an instruction of 64 lanes.
- in flight: by Little's law a processor needs its share of the bandwidth times the latency under way. A program has the
  rows of `ahead` turns under way all the time; with none ahead, those of its present turn half of the time.
- balance: the last round of programs may occupy a part of the processors.
- traffic: partial results of splits are written and read beside the cache.

The latency is that of a loaded memory system. Bandwidths of a copy are the devices' published or reported ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sglang_platform.conformance.kernels.compile.loop import LoopCode
from sglang_platform.conformance.kernels.compile.machine_code import MachineCode

__all__ = ["DEVICES", "DecodeWork", "Device", "Predicted", "predict"]

ISSUED = 0.75
LATENCY = 800e-9


@dataclass(frozen=True, kw_only=True)
class Device:
    """target: the architecture. clock in Hz, bandwidth of a copy in bytes per second. per_clock: instructions that a
    processor issues per clock. shared: bytes that its programs share. Registers are the same on all of a maker: 65536
    per processor on NVIDIA, 512 per lane on AMD."""

    target: str
    processors: int
    clock: float
    bandwidth: float
    per_clock: float
    shared: int


DEVICES = {
    "H200": Device(
        target="sm_90", processors=132, clock=1.755e9, bandwidth=4.3e12, per_clock=4, shared=228 * 1024
    ),
    "MI300X": Device(
        target="gfx942", processors=304, clock=2.1e9, bandwidth=4.1e12, per_clock=1, shared=64 * 1024
    ),
}


@dataclass(frozen=True, kw_only=True)
class DecodeWork:
    """turn: bytes of the cache that a turn reads, readers: programs that read the same. programs: of the launch.
    cache: bytes that all requests read. partial: bytes of partial results."""

    turn: int
    readers: int
    programs: int
    cache: int
    partial: int


@dataclass(frozen=True)
class Predicted:
    """Each factor, and their product with the least of 1, issue and flight."""

    issue: float
    flight: float
    balance: float
    traffic: float

    @property
    def share(self) -> float:
        return min(1.0, self.issue, self.flight) * self.balance * self.traffic

    @property
    def bound(self) -> str:
        """What keeps it from all of the bandwidth, the strongest first."""
        factors = {
            "instructions issued": min(1.0, self.issue),
            "bytes in flight": min(1.0, self.flight),
            "last round": self.balance,
            "partial results": self.traffic,
        }
        return min(factors, key=lambda name: factors[name]) if self.share < 0.995 else ""


def predict(device: Device, code: MachineCode, loop: LoopCode, warps: int, work: DecodeWork) -> Predicted:
    """For `work` on `device`, with programs of `warps` warps."""
    resident = _resident(device, code, warps)
    per_processor = device.bandwidth / device.processors
    seconds = loop.instructions * warps / (device.per_clock * ISSUED) / device.clock
    under_way = resident * work.turn * (loop.ahead or 0.5)
    rounds = work.programs / device.processors
    return Predicted(
        issue=work.turn / work.readers / seconds / per_processor,
        flight=under_way / LATENCY / per_processor,
        balance=rounds / math.ceil(rounds),
        traffic=work.cache / (work.cache + work.partial),
    )


def _resident(device: Device, code: MachineCode, warps: int) -> int:
    """Programs that a processor holds at once."""
    if device.target.startswith("gfx"):
        by_shared = device.shared // max(1, code.shared)
        by_registers = 4 * min(8, 512 // (-(-code.registers // 8) * 8)) // warps
    else:
        by_shared = device.shared // (code.shared + 1024)
        by_registers = 65536 // (-(-code.registers // 8) * 8 * 32 * warps)
    return max(1, min(by_shared, by_registers))
