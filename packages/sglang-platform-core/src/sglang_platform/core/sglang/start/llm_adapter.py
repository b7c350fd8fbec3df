"""SGLang's LLM runtime as the host."""

from __future__ import annotations

from sglang_platform.core.host import LLM_RUNTIME
from sglang_platform.core.sglang.start.adapter import RuntimeAdapter
from sglang_platform.core.sglang.start.llm_platform import rebase_platform

__all__ = ["ADAPTER"]

ADAPTER = RuntimeAdapter(
    "sglang",
    LLM_RUNTIME,
    platform_base="sglang.srt.platforms.interface:SRTPlatform",
    rebase_platform=rebase_platform,
)
