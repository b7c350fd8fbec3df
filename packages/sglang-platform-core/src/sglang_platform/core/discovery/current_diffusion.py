"""`current_mm_platform`: the one lazy platform object of the diffusion runtime, beside `current_platform`.

Both runtimes may live in one process: SGLang's diffusion workers import parts of its LLM runtime. Each has its own
group of plugins, its own variable and its own object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.discovery.lazy import lazy_platform

if TYPE_CHECKING:
    from sglang_platform.core.contract.mm import MMPlatform

__all__ = ["current_mm_platform", "process"]

_object, process = lazy_platform(DIFFUSION)

current_mm_platform: MMPlatform = _object
