"""Calls `init_backend()` and `post_load_model()`, which SGLang calls out of tree only, or not in every release."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import MODEL_RUNNER
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Call `init_backend()` once per worker, before its first model runner, and `post_load_model()` after each load."""
    initialised = platform.is_out_of_tree()

    def init_backend(runner: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal initialised
        if not initialised:
            initialised = True
            platform.init_backend()

    def post_load_model(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
        platform.post_load_model(runner.model)

    if not initialised:
        required(
            f"{MODEL_RUNNER}.__init__", init_backend, HookType.BEFORE,
            without="init_backend() of the platform is not called",
        )  # fmt: skip
    if not host.asks_post_load_model:
        required(
            f"{MODEL_RUNNER}.load_model", post_load_model, HookType.AFTER,
            without="post_load_model() of the platform is not called",
        )  # fmt: skip
