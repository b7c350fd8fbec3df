"""The record of an AMD architecture: all launch parameters that the wrappers of this package choose by.

CDNA has 512 registers per lane and little LDS, so decode keeps its loads in flight in registers: the loop has few
stages, and the waves per SIMD limit the registers per wave. Matrix instructions of 16 rows are used, since head groups
in GQA are that small; with 32 rows half of each product would be padding.

A wave has 64 lanes, so 4 waves load 4 KiB at once, and 4096 bf16 elements are two loads.

The numbers in `tuning/` were chosen to fit registers and LDS without spills (see the generated table of kernels); none
was timed on a device yet. LDS per workgroup and 8-bit conversions: AMD's instruction set manuals of CDNA2, 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from sglang_platform.core.portable.triton.wrappers.record import (
    DecodeShape,
    ExtendShape,
    IndexShape,
    KernelRecord,
)

__all__ = ["RocmArchitecture", "RocmDecodeShape", "RocmExtendShape", "RocmIndexShape"]

_ROWS_PER_MATRIX_INSTRUCTION = 16


@dataclass(frozen=True, kw_only=True)
class RocmDecodeShape(DecodeShape):
    """waves_per_eu: the target number of waves per SIMD. dies: see core's `die_order`."""

    waves_per_eu: int = 2
    dies: int = 1

    def options(self) -> dict[str, Any]:
        """Options for the compiler, and arguments that only this package's kernel takes."""
        return _options(super().options(), waves_per_eu=self.waves_per_eu, DIES=self.dies)


@dataclass(frozen=True, kw_only=True)
class RocmExtendShape(ExtendShape):
    """As of `RocmDecodeShape`."""

    waves_per_eu: int
    dies: int = 1

    def options(self) -> dict[str, Any]:
        """Options for the compiler, and arguments for the kernel on these devices."""
        return _options(super().options(), waves_per_eu=self.waves_per_eu, DIES=self.dies, AHEAD=True)


@dataclass(frozen=True, kw_only=True)
class RocmIndexShape(IndexShape):
    """The shape of the index kernel; the compiler chooses the waves per SIMD."""

    def options(self) -> dict[str, Any]:
        """Options for the compiler."""
        return _options(super().options())


def _options(shared: dict[str, Any], **own: int) -> dict[str, Any]:
    return {**shared, "matrix_instr_nonkdim": _ROWS_PER_MATRIX_INSTRUCTION, **own}


@dataclass(frozen=True, kw_only=True)
class RocmArchitecture(KernelRecord):
    """A record of this package. Absorbed MLA over an 8-bit cache may have a decode shape of its own: widened rows and
    the codes of the next ones do not both fit the registers.

    on_a_die: the processors that share an L2, where a device has several; 0: all do."""

    backend: str = "hip"
    warp: int = 64
    on_a_die: int = 0

    @property
    def dies(self) -> int:
        """The number of dies of the device or partition; 1 if its processors are not a multiple of `on_a_die`."""
        return 1 if not self.on_a_die or self.processors % self.on_a_die else self.processors // self.on_a_die

    def decode_shape(
        self, dim: int, *, latent: bool, eight_bit: bool, float32: bool, packed: bool = False
    ) -> DecodeShape:
        """As in `KernelRecord`, with the number of dies added."""
        shape = super().decode_shape(dim, latent=latent, eight_bit=eight_bit, float32=float32, packed=packed)
        return replace(cast(RocmDecodeShape, shape), dies=self.dies)

    def extend_shape(self, dim: int, *, latent: bool, widened: bool, float32: bool) -> ExtendShape:
        """As in `KernelRecord`, with the number of dies added."""
        shape = super().extend_shape(dim, latent=latent, widened=widened, float32=float32)
        return replace(cast(RocmExtendShape, shape), dies=self.dies)
