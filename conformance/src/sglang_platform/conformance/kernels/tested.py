"""What the checks of a declaration draw from: the architectures and 8-bit formats that it names.

`drawing_from` sets them around a check. Outside, CPU tensors stand for nothing in particular and the 8-bit formats are
the OCP ones, so that a check can be run by hand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from sglang_platform.core.contract.kernels import KernelDeclaration, KernelTarget
from sglang_platform.core.portable.triton.architecture import for_architecture

__all__ = ["as_target", "drawing_from", "fp8_dtypes", "on_some_target", "targets"]


@dataclass(frozen=True)
class _Tested:
    targets: tuple[KernelTarget, ...] = ()
    fp8: tuple[torch.dtype, ...] = (torch.float8_e4m3fn, torch.float8_e5m2)


_tested = _Tested()


@contextmanager
def drawing_from(declared: KernelDeclaration) -> Iterator[None]:
    """The checks inside are those of `declared`."""
    global _tested
    outer = _tested
    _tested = _Tested(declared.targets, tuple(getattr(torch, name) for name in declared.fp8_formats))
    try:
        yield
    finally:
        _tested = outer


def targets() -> tuple[KernelTarget | None, ...]:
    """The architectures; one None where none is named."""
    return _tested.targets or (None,)


def fp8_dtypes() -> tuple[torch.dtype, ...]:
    """The 8-bit formats; none where the declaration names none."""
    return _tested.fp8


def as_target(target: KernelTarget | None, device: torch.device) -> AbstractContextManager[object]:
    """CPU tensors stand for `target`; on a device the device is what it is."""
    return nullcontext() if target is None or device.type != "cpu" else for_architecture(target)


def on_some_target(rng: random.Random, device: torch.device) -> AbstractContextManager[object]:
    """On the CPU one of the architectures, so that the tuning of each is run; on a device that one."""
    return as_target(rng.choice(targets()), device)
