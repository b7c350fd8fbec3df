"""Calls `get_quantization_config()` where SGLang does not: for in-tree platforms, and in releases up to 0.5.12."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import Feature, LaunchSettings, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Give the platform's configuration precedence over the host's, where the host does not ask for it."""
    if host.asks_quantization_config and platform.is_out_of_tree():
        return

    def get_quantization_config(original: Any, quantization: str) -> Any:
        own = platform.get_quantization_config(quantization)
        return original(quantization) if own is None else own

    def is_declared(launch: LaunchSettings) -> bool:
        settled = launch.model_config or launch.arguments
        return settled is not None and settled.quantization in platform.supported_quantization

    target = "sglang.srt.layers.quantization:get_quantization_config"
    declared = Feature("--quantization with a method that the platform declares", is_declared)
    only_for(declared, target, get_quantization_config, HookType.AROUND)
