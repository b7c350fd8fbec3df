"""The share of the machine's cores and memory that a device uses.

A vendor deletes this file: the driver knows.
"""

from __future__ import annotations

import os
from pathlib import Path

from sglang_platform.core.errors import ConfigurationError

_RANKS = "_SGLANG_EXAMPLE_OOT_RANKS"
"""The number of processes that share the machine, set by their parent process."""


def share_cores(ranks: int) -> None:
    """Let each of the `ranks` processes that this one starts next have its share of the machine's cores."""
    os.environ[_RANKS] = str(ranks)


def cores() -> int:
    """The cores that run a device's kernels: SGLANG_EXAMPLE_OOT_CORES, by default this process's share of them all."""
    import torch

    share = (os.cpu_count() or 1) // positive(_RANKS, 1)
    return positive("SGLANG_EXAMPLE_OOT_CORES", max(1, min(share, torch.get_num_threads())))


def memory_limit() -> int:
    """The bytes each device may hold: SGLANG_EXAMPLE_OOT_MEMORY, by default what the machine has."""
    return positive("SGLANG_EXAMPLE_OOT_MEMORY", os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def available_memory() -> int:
    """Bytes that the machine could still give to a device."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # no procfs: count the free pages instead
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def positive(variable: str, default: int) -> int:
    """The number in an environment variable; ConfigurationError if it is not a number or less than 1."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdigit() or int(text) < 1:
        raise ConfigurationError(
            f"{variable}={text!r} is not a positive integer", fix="give a number, or unset it"
        )
    return int(text)
