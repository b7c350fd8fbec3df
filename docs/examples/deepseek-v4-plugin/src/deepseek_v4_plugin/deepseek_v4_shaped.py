"""The architecture: SGLang's DeepSeek-V3 under a name of its own, which asks for the coordinator by name."""

from __future__ import annotations

from typing import ClassVar

from sglang.srt.models.deepseek_v2 import DeepseekV3ForCausalLM

__all__ = ["DeepseekV4ShapedForCausalLM"]


class DeepseekV4ShapedForCausalLM(DeepseekV3ForCausalLM):
    """Multi-head latent attention and experts, as far as SGLang serves them off CUDA."""

    request_coordinator: ClassVar[str] = "v4_pages"
