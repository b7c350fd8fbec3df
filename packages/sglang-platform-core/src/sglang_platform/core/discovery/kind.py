"""What differs between the platforms of SGLang's two runtimes: group, variables, base class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglang_platform.core.discovery.groups import PLATFORM_GROUP

__all__ = ["SRT", "PlatformKind"]


@dataclass(frozen=True)
class PlatformKind:
    """One kind of platform, resolved by its own rules' variables."""

    group: str
    """The entry-point group of its plugins."""

    variable: str
    """Names the platform to use: an entry-point name."""

    development_variable: str
    """A platform that no distribution carries, as `name=pkg.mod:Class`."""

    core_base: Callable[[], type]
    """Core's base class of the kind. A function, so that naming the kind imports no contract."""


def _srt_base() -> type:
    from sglang_platform.core.contract.srt import SRTPlatform

    return SRTPlatform


SRT = PlatformKind(
    group=PLATFORM_GROUP,
    variable="SGLANG_PLATFORM",
    development_variable="SGLANG_PLATFORM_PLUGIN",
    core_base=_srt_base,
)
"""The LLM runtime's platforms."""
