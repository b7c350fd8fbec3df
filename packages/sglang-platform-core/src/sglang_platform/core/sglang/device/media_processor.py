"""Processes images on the CPU on devices other than CUDA, where SGLang up to 0.5.20 would use `cuda`."""

from __future__ import annotations

import sys
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register for out-of-tree devices whose torch type is not `cuda`, in releases that do not ask the platform."""
    if host.media_on_cuda is None or platform.device_type == "cuda" or not platform.is_out_of_tree():
        return
    module = host.media_on_cuda.partition(":")[0]

    def on_the_cpu(*args: Any, **kwargs: Any) -> None:
        sys.modules[module]._is_cpu = True  # type: ignore[attr-defined]

    soft(
        f"{host.media_on_cuda}.__init__", on_the_cpu, HookType.BEFORE,
        without="requests with pictures fail: they are prepared on CUDA",
    )  # fmt: skip
