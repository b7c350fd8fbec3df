"""What a platform says about its kernels, so that they can be checked on a machine without the device.

`SRTPlatform.kernels` names the places of tuples of these. Declaring imports no kernel and no compiler: everything
heavy is named as `"package.module:name"` and loaded by the conformance suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CompileLimits", "KernelDeclaration", "KernelTarget"]


@dataclass(frozen=True, kw_only=True)
class KernelTarget:
    """An architecture that kernels are written for. A platform's package holds one record for each.

    name: the compiler's name, unique among a platform's targets. backend: Triton's backend that compiles for it. arch:
    how that backend is told the architecture. warp: lanes that run together. shared: bytes of shared memory that one
    program may use. processors: how many programs' worth of hardware the usual product has. e4m3: which of torch's two
    e4m3 types a cache is given there.
    """

    name: str
    backend: str
    arch: int | str
    warp: int
    shared: int
    processors: int
    e4m3: str = "float8_e4m3fn"


@dataclass(frozen=True, kw_only=True)
class CompileLimits:
    """What the machine code of one compiled kernel must show. Shared memory is held to the target's own limit always.

    why: the reason for the numbers, in a sentence.
    spills: bytes of registers that may be spilled to memory, on any target.
    registers: the most registers per thread; None: no limit but the spills.
    matrix: whether it must multiply on matrix units (mma.sync, wgmma, tcgen05, MFMA).
    wide_loads: whether it must load 16 bytes per lane and instruction somewhere.
    per_target: limits that differ on a target, by its name, each with its own reason.
    """

    why: str
    spills: int = 0
    registers: int | None = None
    matrix: bool = False
    wide_loads: bool = True
    per_target: Mapping[str, CompileLimits] = field(default_factory=dict)

    def on(self, target: str) -> CompileLimits:
        """The limits that hold on `target`."""
        return self.per_target.get(target, self)


@dataclass(frozen=True, kw_only=True)
class KernelDeclaration:
    """One kernel family: the function that launches it, and how it is checked.

    name: unique on the platform; the row's name in reports.
    entry: the launch wrapper, `"package.module:function"`.
    check: the family's name in the suite (one of its modules of kernel checks), or the place of a vendor's own check,
        `"package.module:function"`, a function `(entry, device, seed)` that yields cases.
    launches: `"package.module:function"`, a function without arguments that returns `{name: function}`; each of these
        makes tensors on the CPU and calls the wrapper, as a served model would. They run under a driver without a
        device, once per target, so that the wrapper's own choices are what is compiled. None: the launches that the
        suite has for the family that `check` names.
    limits: by the name of each jitted function that the launches reach.
    targets: the architectures it is written for.
    fp8_formats: the 8-bit float types it stores or reads, by torch's names; checks draw from these, and the suite's
        launches for a target use its `e4m3`, or the first where that is not among them.
    exclusions: `"<target>"` or `"<target>/<launch>"`, with the reason why it is not compiled there.
    """

    name: str
    entry: str
    check: str
    limits: Mapping[str, CompileLimits]
    targets: tuple[KernelTarget, ...]
    launches: str | None = None
    fp8_formats: tuple[str, ...] = ()
    exclusions: Mapping[str, str] = field(default_factory=dict)

    def excluded(self, target: str, launch: str) -> str | None:
        """Why `launch` is not compiled for `target`; None where it is."""
        return self.exclusions.get(target) or self.exclusions.get(f"{target}/{launch}")
