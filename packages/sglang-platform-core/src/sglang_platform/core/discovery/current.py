"""`current_platform`: the one lazy platform object of the process.

Importing it resolves nothing. The first touch of an attribute decides on a platform and then turns this very object
into an instance of the platform's class, so that every later access is a plain attribute access and the object is
the same one wherever and whenever it was imported. In a host process the host's own `current_platform` is this
object too, whichever of the two is touched first (see `adopt`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.discovery.lazy import lazy_platform

if TYPE_CHECKING:
    from sglang_platform.core.contract.srt import SRTPlatform
    from sglang_platform.core.discovery.resolve import Decision, PlatformChoice
    from sglang_platform.core.discovery.trace import Trace

__all__ = [
    "adopt",
    "choice",
    "current_platform",
    "decide",
    "decision",
    "follow_host",
    "host_platform_class",
    "is_current_platform",
    "reset",
    "resolved",
    "trace",
]


_object, _process = lazy_platform(SRT)

current_platform: SRTPlatform = _object


def resolved() -> bool:
    """Whether this process has its platform."""
    return _process.turned


def decision() -> Decision | None:
    """The decision of this process, or None where nothing has asked for one yet."""
    return _process.decision


def decide() -> Decision:
    """The decision of this process, made now if it was not. The platform is not instantiated.

    Raises the PlatformError of the rules; the same one, each time, until `reset`.
    """
    return _process.decide()


def choice() -> PlatformChoice:
    """Which plugin is active, decided now if it was not. The platform's class is not imported."""
    return _process.choose()


def trace() -> Trace | None:
    """The trace of this process's decision, also where it was refused; None where nothing has asked yet."""
    return _process.trace


def adopt(cls: type) -> object:
    """`Process.adopt`: make `current_platform` an instance of `cls` and return it."""
    return _process.adopt(cls)


def follow_host() -> None:
    """`Process.follow_host`: take over the host's own platform where no plugin is active."""
    _process.follow_host()


def host_platform_class(name: str) -> type:
    """`Process.host_platform_class`: the re-based class, by the attribute name that `activate()` gave."""
    return _process.host_platform_class(name)


def is_current_platform(other: object) -> bool:
    """Whether `other` is `current_platform`, or the object of the host's whose class and state it took over."""
    return _process.is_platform(other)


def reset() -> None:
    """Forget platform, decision and metadata scan. For tests: objects that kept parts of the platform keep them."""
    _process.reset()
