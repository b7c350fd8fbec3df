"""`post_load_model()`: hosts before 0.5.22 do not call it."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.seams.places import MODEL_RUNNER
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Call it when a model has been loaded, where the host does not."""
    if host.asks_post_load_model:
        return

    def post_load_model(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
        platform.post_load_model(runner.model)

    HookRegistry.register(f"{MODEL_RUNNER}.load_model", post_load_model, HookType.AFTER)
