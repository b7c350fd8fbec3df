"""Tensors of a device, sent to another process of the machine by value.

Torch shares the memory of CPU and CUDA tensors with the receiver and refuses those of any other device. Here the
storage is copied through the host into the message: the receiver has a copy, and writes to it do not come back.
Everything above the storage stays torch's own: views of one storage in one message stay views of one storage, and
strides, dtype, `requires_grad` and `Parameter` arrive as they were.

A view takes its whole storage along, as with `torch.save`: send `view.clone()` where the storage is much larger.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing.reductions as reductions

from sglang_platform.core.errors import ConfigurationError

__all__ = ["device_here", "rebuild_storage", "send_by_value"]

_SHARED_BY_TORCH = ("cpu", "cuda", "meta")
"""The device types that torch serves, or refuses in words of its own."""


def send_by_value() -> None:
    """Let every process pickler carry storages of a device that torch cannot share. Idempotent.

    A device's own reduction, registered before or after, stays in force.
    """
    torchs: Callable[[Any], Any] = reductions.reduce_storage
    registered = ForkingPickler._extra_reducers.get(torch.UntypedStorage)  # type: ignore[attr-defined]
    if registered is not torchs or torchs.__module__ != reductions.__name__:
        return

    def reduce_storage(storage: torch.UntypedStorage) -> tuple[Any, ...]:
        if storage.device.type in _SHARED_BY_TORCH:
            return torchs(storage)  # type: ignore[no-any-return]
        return rebuild_storage, (_bytes(storage), str(storage.device))

    # Under this name too: `init_reductions()` registers anew, and SGLang calls it.
    reductions.reduce_storage = reduce_storage
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)


def rebuild_storage(data: bytes, device: str) -> torch.UntypedStorage:
    """The storage on `device` in the receiver. Raises what `device_here` does."""
    made = torch.empty(len(data), dtype=torch.uint8, device=device_here(device))
    if data:
        made.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return made.untyped_storage()


def device_here(device: str) -> torch.device:
    """The sender's `device` in this process, or the current one where this process has none of that index.

    ConfigurationError if this process has not registered the device type with torch.
    """
    try:
        there = torch.device(device)
        count = torch.get_device_module(there.type).device_count()
    except RuntimeError as error:
        raise ConfigurationError(
            f"something on {device} came from another process, and this process has no such device",
            why=str(error).partition("\n")[0],
            fix="load the platform's plugin before the message is read (in a spawned process: at the top of its main "
            "module), or send tensor.cpu()",
        ) from error
    return there if there.index is None or there.index < count else torch.device(there.type)


def _bytes(storage: torch.UntypedStorage) -> bytes:
    content = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu()
    return bytes(content.numpy())
