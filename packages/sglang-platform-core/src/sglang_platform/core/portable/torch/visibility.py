"""The environment variables that say which devices a process sees.

A variable holds a comma-separated list of indices or UUIDs; the process numbers its devices by their place in
it. An entry that is no device, such as `-1`, ends the list, and an empty list shows nothing (CUDA programming
guide, appendix on environment variables; HIP follows it).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["hidden_by", "only_device", "shown_device"]


def hidden_by(variables: Sequence[str]) -> str | None:
    """The setting that hides every device from this process, as `NAME=value`; None where none does."""
    for name in variables:
        if name in os.environ and not _visible(os.environ[name]):
            return f"{name}={os.environ[name]}"
    return None


def shown_device(device_id: int, variables: Sequence[str]) -> str:
    """Device `device_id` of this process, as the first of `variables` that is set names it."""
    shown = next((_visible(os.environ[name]) for name in variables if name in os.environ), [])
    return shown[device_id] if device_id < len(shown) else str(device_id)


@contextmanager
def only_device(device_id: int, variables: Sequence[str], default: str) -> Iterator[int]:
    """Shows only device `device_id`, as this process numbers its devices, to processes that are started
    inside.

    `variables` are those the runtime reads, in order of precedence; `default` is set if none of them is. The
    environment is restored afterwards, whatever happens inside. Yields 0, the index the device has there. A runtime
    that is already initialised in this process is not affected.

    Raises ValueError where the process sees no such device.
    """
    name = next((name for name in variables if name in os.environ), default)
    before = os.environ.get(name)
    shown = None if before is None else _visible(before)
    if shown is not None and not 0 <= device_id < len(shown):
        raise ValueError(f"there is no device {device_id}: {name}={before} shows {len(shown)} of them")
    os.environ[name] = str(device_id) if shown is None else shown[device_id]
    try:
        yield 0
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _visible(value: str) -> list[str]:
    shown: list[str] = []
    for entry in (part.strip() for part in value.split(",")):
        if not entry or entry.startswith("-"):
            break
        shown.append(entry)
    return shown
