"""`init_backend()` for a platform that keeps its CUDA or ROCm identity: the host calls it out of tree only."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.seams.places import MODEL_RUNNER
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Initialise the backend once per worker, before its first model runner is built."""
    if platform.is_out_of_tree():
        return
    initialised = False

    def init_backend(runner: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal initialised
        if not initialised:
            initialised = True
            platform.init_backend()

    HookRegistry.register(f"{MODEL_RUNNER}.__init__", init_backend, HookType.BEFORE)
