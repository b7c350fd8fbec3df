"""Creates the registered request coordinators with the scheduler, as listeners of its lifecycle events."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType, plugin_source
from sglang_platform.core.registries import coordinators, events
from sglang_platform.core.sglang.host_classes import SCHEDULER
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Hook the scheduler when the first coordinator is registered."""
    coordinators.coordinators.when_first_added(_hook_scheduler)


def _hook_scheduler() -> None:
    required(
        f"{SCHEDULER}.__init__",
        _create,
        HookType.AFTER,
        without="registered request coordinators are not made",
    )


def _create(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    for name in coordinators.wanted_coordinators(served_model().model_class):
        made = coordinators.create_coordinator(name, scheduler=scheduler)
        if any(hasattr(made, event) for event in (*events.EVENTS, *events.QUERIES)):
            entry = coordinators.coordinators.get(name)
            with plugin_source(entry.origin if entry else None):
                events.register_forward_hook(f"coordinator {name}", made)
