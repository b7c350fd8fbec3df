"""`current_platform` and `current_mm_platform`: the lazy platform objects of the process, one for each runtime.

Importing them resolves nothing. The first attribute access decides on a platform and turns the object in place into an
instance of the platform's class. So every later access is a plain attribute access, and all importers share one object.
In a host process the host's `current_platform` is this object too, whichever of the two is accessed first (see
`Process.adopt`).

Both runtimes may run in one process: SGLang's diffusion workers import parts of its LLM runtime. Each runtime has a
separate plugin group, environment variable and object.
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
    """Whether the platform of this process has been resolved."""
    return _process.turned


def decision() -> Decision | None:
    """The decision of this process, or None before the first request for one."""
    return _process.decision


def trace() -> Trace | None:
    """The trace of this process's decision, also if it was refused; None before the first request."""
    return _process.trace
