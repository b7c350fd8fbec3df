"""Rotary embeddings without vLLM: hosts up to 0.5.12 import a vLLM kernel on every device unknown to them, but never
call it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Let the host build its rotary embeddings where vLLM is not installed."""
    if not host.builds_rotary_off_device:
        target = "sglang.srt.layers.rotary_embedding.base:RotaryEmbedding.__init__"
        required(target, _without_vllm, HookType.AROUND, without="models with rotary embeddings need vLLM")


def _without_vllm(original: Any, *args: Any, **kwargs: Any) -> Any:
    if "vllm" in sys.modules or importlib.util.find_spec("vllm") is not None:
        return original(*args, **kwargs)
    package, ops = ModuleType("vllm"), ModuleType("vllm._custom_ops")
    ops.rotary_embedding = None  # type: ignore[attr-defined]
    package._custom_ops = ops  # type: ignore[attr-defined]
    sys.modules.update({"vllm": package, "vllm._custom_ops": ops})
    try:
        return original(*args, **kwargs)
    finally:
        del sys.modules["vllm"], sys.modules["vllm._custom_ops"]
