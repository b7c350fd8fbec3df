"""Attention backends of draft models: SGLang creates them from fixed tables that lack the platform's backends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import only_for
from sglang_platform.core.sglang.speculative.draft_steps import DraftSteps, backend_of
from sglang_platform.core.sglang.speculative.launch import SPECULATION
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_FACTORY = "sglang.srt.speculative.draft_utils:DraftBackendFactory"
_STEPS = "_sglang_platform_makes_steps"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Add the platform's backends to the tables from which the host creates a draft model's backends."""

    def offer(
        factory: Any, backend_name: str, backend_map: dict[str, Callable[[], Any]], *args: Any, **kwargs: Any
    ) -> Any:
        offered = dict(backend_map)
        for name in platform.get_attention_backends():
            offered[name] = partial(_make, factory, name, stamped=host.stamps_draft_backends)
        return (factory, backend_name, offered, *args), kwargs

    def of_steps(factory: Any) -> None:
        setattr(factory, _STEPS, True)

    def of_extend(factory: Any) -> None:
        setattr(factory, _STEPS, False)

    only_for(SPECULATION, f"{_FACTORY}.create_decode_backend", of_steps, HookType.BEFORE)
    only_for(SPECULATION, f"{_FACTORY}.create_draft_extend_backend", of_extend, HookType.BEFORE)
    only_for(SPECULATION, f"{_FACTORY}._create_backend", offer, HookType.BEFORE)


def _make(factory: Any, name: str, *, stamped: bool) -> Any:
    runner = factory.draft_model_runner
    backend: Any = backend_of(name, runner)
    if getattr(factory, _STEPS):
        backend = DraftSteps(name, runner, factory.topk, factory.speculative_num_steps)
    return (name, backend) if stamped else backend
