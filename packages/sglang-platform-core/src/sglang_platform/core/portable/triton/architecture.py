"""Architecture records of a package, and the lookup of the record for a device.

A package keeps one file per architecture in a folder, each with one `RECORD`: all values that its launch wrappers
depend on. `Architectures` finds them by file name, so a new architecture is a new file. This module imports only what a
declaration may import: no compiler, and torch only when a device is queried.

Wrappers query `Architectures.of`, never torch, so that they run on CPU tensors too: in Triton's interpreter, and under
a driver without a device, for the target that `for_architecture` sets.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sglang_platform.core.contract.kernels import KernelTarget

if TYPE_CHECKING:
    import torch

__all__ = ["PORTABLE", "Architecture", "Architectures", "ByHead", "Launch", "LaunchShapes", "Measured",
           "for_architecture", "pretended"]  # fmt: skip

_log = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Launch:
    """`elements` that one program handles, by `num_warps` warps."""

    elements: int
    num_warps: int


@dataclass(frozen=True, kw_only=True)
class LaunchShapes:
    """How the kernels of this folder are launched on one architecture.

    elementwise: activation, rotary. allocate: the page allocator's integers. scatter: index keys to their pages.
    select: the k largest of a row. move: rows within a KV pool. reduce: ops that reduce a row; for these `elements` is
    per warp and `num_warps` the maximum. warp: lanes per warp, set by the record.
    """

    reduce: Launch
    elementwise: Launch
    allocate: Launch
    scatter: Launch
    select: Launch
    move: Launch
    warp: int = 32


PORTABLE = LaunchShapes(
    reduce=Launch(1024, 16),
    elementwise=Launch(2048, 4),
    allocate=Launch(1024, 4),
    scatter=Launch(2048, 4),
    select=Launch(2048, 8),
    move=Launch(4096, 4),
)
"""The launch shapes for a device without a record: small programs, which every device can run."""


@dataclass(frozen=True)
class ByHead(Generic[T_co]):
    """A choice by the width of an attention head: up to 64, 128, 256 columns, or absorbed MLA, with optional separate
    values for an 8-bit cache and for packed rows."""

    narrow: T_co
    middle: T_co
    wide: T_co
    latent: T_co
    latent_fp8: T_co | None = None
    latent_packed: T_co | None = None

    def choose(self, dim: int, latent: bool, eight_bit: bool = False) -> T_co:
        """For heads of `dim` columns."""
        if latent:
            return self.latent_fp8 if eight_bit and self.latent_fp8 is not None else self.latent
        return self.narrow if dim <= 64 else self.middle if dim <= 128 else self.wide


@dataclass(frozen=True, kw_only=True)
class Architecture(KernelTarget):
    """Base class of a package's record, which adds fields for its own kernels.

    shapes: launches of the portable kernels. stands_in_for: architectures without a record that use this one.
    """

    shapes: LaunchShapes
    stands_in_for: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Runs again when `Architectures.of` replaces numbers with those of the device.
        object.__setattr__(self, "shapes", replace(self.shapes, warp=self.warp))


@dataclass(frozen=True)
class Measured:
    """Properties read from a device: the compiler's name of its architecture, and its numbers. 0: unknown."""

    name: str
    processors: int = 0
    warp: int = 0
    shared: int = 0


A_co = TypeVar("A_co", bound=Architecture, covariant=True)


class Architectures(Mapping[str, A_co], Generic[A_co]):
    """The records in the files of one folder, by name."""

    def __init__(
        self, package: str, *, fallback: str, on_cpu: str, measure: Callable[[torch.device], Measured]
    ) -> None:
        """package: the folder, as Python imports it. fallback: the record for an architecture that no record serves.
        on_cpu: the default architecture that CPU tensors stand for. measure: reads the properties of a device."""
        self._package, self.fallback, self._on_cpu, self._measure = package, fallback, on_cpu, measure
        self._records: dict[str, A_co] = {}
        self._devices: dict[int, A_co] = {}
        self._told: set[str] = set()

    def _read(self) -> dict[str, A_co]:
        if not self._records:
            folder = importlib.import_module(self._package)
            # Shorter names first: numbers in names then ascend.
            files = sorted(
                pkgutil.iter_modules(folder.__path__), key=lambda file: (len(file.name), file.name)
            )
            for file in files:
                record = importlib.import_module(f"{self._package}.{file.name}").RECORD
                assert record.name == file.name, (
                    f"{self._package}.{file.name} holds the record of {record.name}"
                )
                self._records[record.name] = record
        return self._records

    def __getitem__(self, name: str) -> A_co:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def serving(self, name: str) -> A_co:
        """The record that serves architecture `name`: its own, one that stands in for it, or the fallback. The last two
        cases are logged once per name."""
        if name in self:
            return self[name]
        told = name in self._told
        self._told.add(name)
        for record in self.values():
            if name in record.stands_in_for:
                if not told:
                    _log.info("architecture %s is served by the record of %s", name, record.name)
                return record
        if not told:
            _log.warning(
                "no record for architecture %s in %s (%s): its kernels are launched as on %s, untuned and untested",
                name,
                self._package,
                ", ".join(self),
                self.fallback,
            )
        return self[self.fallback]

    def shapes(self, device: torch.device) -> LaunchShapes:
        """How the portable kernels are launched on `device`."""
        return self.of(device).shapes

    def of(self, device: torch.device) -> A_co:
        """The record for `device`, with the device's own numbers. For the CPU, the record of the architecture that its
        tensors stand for."""
        if _set is not None:
            return self.serving(_set.name)
        if device.type == "cpu":
            return self[self._on_cpu]
        index = -1 if device.index is None else device.index
        if index == -1:
            import torch

            index = torch.get_device_module(device).current_device()
        if index not in self._devices:
            said = self._measure(device)
            numbers: dict[str, Any] = {
                "processors": said.processors,
                "warp": said.warp,
                "shared": said.shared,
            }
            known = {key: value for key, value in numbers.items() if value}
            self._devices[index] = replace(self.serving(said.name), name=said.name, **known)
        return self._devices[index]


_set: KernelTarget | None = None


@contextmanager
def for_architecture(target: KernelTarget) -> Iterator[KernelTarget]:
    """Launch wrappers called inside choose as they would on `target`."""
    global _set
    outer, _set = _set, target
    try:
        yield target
    finally:
        _set = outer


def pretended() -> KernelTarget | None:
    """The architecture that CPU tensors stand for at the moment, if any."""
    return _set
