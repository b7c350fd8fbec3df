"""Request coordinators: objects in the scheduler that follow requests, created by name.

A model names the coordinator it needs (`request_coordinator = "name"` on its class), or an operator does in
`SGLANG_PLATFORM_COORDINATORS`; shared code creates it by that name without importing the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from sglang_platform.core.registries.registry import Registry, RegistryError
from sglang_platform.core.spelling import nearest

__all__ = [
    "COORDINATORS_VARIABLE",
    "CREATED_BY",
    "coordinators",
    "create_coordinator",
    "register_request_coordinator",
    "wanted_coordinators",
]

COORDINATORS_VARIABLE = "SGLANG_PLATFORM_COORDINATORS"
"""Names of coordinators to create in each scheduler, separated by commas."""

CREATED_BY: dict[str, str] = {}
"""Maps a coordinator's name to the module that registers it, for the error message about an unknown name."""

coordinators: Registry[Callable[..., Any]] = Registry("request_coordinators", "request coordinator")


def register_request_coordinator(name: str, factory: Callable[..., Any], *, model: str | None = None) -> None:
    """`factory(scheduler=..., **options)` makes the coordinator, once per scheduler.

    The object may have any method of a lifecycle listener (`register_forward_hook`), such as
    `on_request_admitted(req)` and `on_batch_done(batch, result)`. `model` is the module whose import registers it.
    Raises RegistryError where another factory has the name.
    """
    if model is not None:
        CREATED_BY[name] = model
    coordinators.add(name, factory)


def create_coordinator(name: str, **options: Any) -> Any:
    """Make the coordinator `name`. Raises RegistryError for an unknown one, with those that are known."""
    entry = coordinators.get(name)
    if entry is not None:
        return coordinators.call(entry, "factory", entry.part, **options)
    known = coordinators.ids()
    meant = nearest(name, known)
    registered_by = CREATED_BY.get(name)
    raise RegistryError(
        f"there is no request coordinator {name!r}" + (f"; did you mean {meant!r}?" if meant else ""),
        why=f"known: {', '.join(known) or 'none'}"
        + (f"; importing {registered_by} would register it" if registered_by else ""),
        fix=f"import {registered_by} first"
        if registered_by
        else "register it with register_request_coordinator()",
    )


def wanted_coordinators(model_class: type | None = None) -> tuple[str, ...]:
    """The names to create for this model, without duplicates: the operator's, then the model's."""
    named = [name.strip() for name in os.environ.get(COORDINATORS_VARIABLE, "").split(",")]
    own = getattr(model_class, "request_coordinator", None)
    return tuple(dict.fromkeys(name for name in (*named, own) if name))
