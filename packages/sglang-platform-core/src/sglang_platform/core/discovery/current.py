"""`current_platform` and `current_mm_platform`: the lazy platform objects of the process, one for each runtime.

Importing it resolves nothing. The first touch of an attribute decides on a platform and then turns this very object
into an instance of the platform's class, so that every later access is a plain attribute access and the object is
the same one wherever and whenever it was imported. In a host process the host's own `current_platform` is this
object too, whichever of the two is touched first (see `Process.adopt`).

Both runtimes may live in one process: SGLang's diffusion workers import parts of its LLM runtime. Each has its own
group of plugins, its own variable and its own object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang_platform.core.discovery.kind import DIFFUSION, SRT
from sglang_platform.core.discovery.lazy import lazy_platform

if TYPE_CHECKING:
    from sglang_platform.core.contract.mm import MMPlatform
    from sglang_platform.core.contract.srt import SRTPlatform
    from sglang_platform.core.discovery.resolve import Decision
    from sglang_platform.core.discovery.trace import Trace

__all__ = [
    "adopt",
    "choice",
    "current_mm_platform",
    "current_platform",
    "decide",
    "decision",
    "diffusion_process",
    "follow_host",
    "is_current_platform",
    "reset",
    "resolved",
    "trace",
]


_object, _process = lazy_platform(SRT)
_mm_object, diffusion_process = lazy_platform(DIFFUSION)

current_platform: SRTPlatform = _object
current_mm_platform: MMPlatform = _mm_object

decide, choice = _process.decide, _process.choose
adopt, follow_host = _process.adopt, _process.follow_host
is_current_platform, reset = _process.is_platform, _process.reset


def resolved() -> bool:
    """Whether this process has its platform."""
    return _process.turned


def decision() -> Decision | None:
    """The decision of this process, or None where nothing has asked for one yet."""
    return _process.decision


def trace() -> Trace | None:
    """The trace of this process's decision, also where it was refused; None where nothing has asked yet."""
    return _process.trace
