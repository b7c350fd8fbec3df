"""Where kernels run, and the launch shapes of the portable ones.

Kernels do not specialise on the number of tokens or rows (`do_not_specialize`): it changes with every batch, and a new
specialisation is a compilation while somebody waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
import triton

from sglang_platform.core.portable.triton.architecture import (
    PORTABLE,
    Architecture,
    LaunchShapes,
    pretended,
)

__all__ = ["ShapesOf", "launches", "portable_shapes"]

_log = logging.getLogger(__name__)
_warned: set[str] = set()

ShapesOf = Callable[[torch.device], LaunchShapes]


def launches(tensor: torch.Tensor) -> bool:
    """Whether Triton kernels run on `tensor`: on every device but the CPU, and there in Triton's interpreter and where
    CPU tensors stand for a device's (`architecture.for_architecture`)."""
    return tensor.device.type != "cpu" or bool(triton.knobs.runtime.interpret) or pretended() is not None


def portable_shapes(device: torch.device) -> LaunchShapes:
    """For a wrapper that was given no launch: those of the architecture that is pretended, otherwise PORTABLE, with one
    warning per device type. A package's parts hand their record's launches in."""
    target = pretended()
    if isinstance(target, Architecture):
        return target.shapes
    if device.type != "cpu" and device.type not in _warned:
        _warned.add(device.type)
        _log.warning(
            "kernels on %s are launched without the record of an architecture, in the shapes PORTABLE",
            device.type,
        )
    return PORTABLE
