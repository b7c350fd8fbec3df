"""A kernel's configuration by device: the tested one on a tested device, else the conservative one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

__all__ = ["config_for"]

T = TypeVar("T")

_logger = logging.getLogger(__name__)
_said: set[tuple[str, str]] = set()


def config_for(kernel: str, device: str, tested: Mapping[str, T], conservative: T) -> T:
    """The tested configuration of `kernel` on `device`, else `conservative` with one warning per pair and process.

    `tested` is by device, in the plugin's own names (of an architecture, say).
    """
    if device in tested:
        return tested[device]
    if (kernel, device) not in _said:
        _said.add((kernel, device))
        _logger.warning(
            "%s was not tuned for %s (tuned for: %s); it runs with its conservative configuration",
            kernel,
            device,
            ", ".join(sorted(tested)) or "nothing",
        )
    return conservative
