"""What torch serves only to devices it was written for: pickled generators, DLPack, sent tensors, process groups.

A vendor changes: a device whose generator has an offset drops the generator's part, one whose memory other processes
can map replaces `send_by_value()` by a reduction of its own.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

import torch
from sglang_platform.core.portable.torch.sent_storages import device_here, send_by_value
from torch.utils.dlpack import DLDeviceType

from sglang_platform.example_oot.device_type import NAME
from sglang_platform.example_oot.torch_device import module

__all__ = ["rebuild_generator", "register"]


def register() -> None:
    """Called once, after the device is open."""
    module.default_generators = tuple(map(module._generator, range(module.device_count())))
    copyreg.pickle(torch.Generator, _reduce_generator)
    torch.serialization.add_safe_globals([rebuild_generator])
    torch.Tensor.__dlpack_device__ = _dlpack_device(torch.Tensor.__dlpack_device__)  # type: ignore[method-assign]
    send_by_value()
    if torch.distributed.is_available():
        # It needs torch.distributed.
        from sglang_platform.example_oot.torch_device import process_group

        process_group.register()


def _reduce_generator(generator: torch.Generator) -> Any:
    # Torch's own reduction asks every generator but the CPU's for an offset.
    if generator.device.type != NAME:
        return generator.__reduce__()
    return rebuild_generator, (str(generator.device), generator.get_state())


def rebuild_generator(device: str, state: torch.Tensor) -> torch.Generator:
    """A generator of `device` in that state. ConfigurationError where this process has not opened the device."""
    return torch.Generator(device=device_here(device)).set_state(state)


def _dlpack_device(torchs: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """Torch looks for the device type's name before `rename_privateuse1_backend`, and so for none."""

    def __dlpack_device__(self: torch.Tensor) -> Any:
        if self.device.type == NAME:
            return DLDeviceType.kDLExtDev, self.device.index
        return torchs(self)

    return __dlpack_device__
