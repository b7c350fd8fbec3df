"""SGLang's diffusion runtime, `sglang.multimodal_gen`, as the host."""

from __future__ import annotations

from sglang_platform.core.host import DIFFUSION_RUNTIME
from sglang_platform.core.sglang.diffusion.platform import rebase_platform
from sglang_platform.core.sglang.start.adapter import RuntimeAdapter

__all__ = ["ADAPTER"]

ADAPTER = RuntimeAdapter(
    "SGLang's diffusion runtime",
    DIFFUSION_RUNTIME,
    platform_base="sglang.multimodal_gen.runtime.platforms.interface:Platform",
    rebase_platform=rebase_platform,
)
