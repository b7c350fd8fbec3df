"""SGLang's classes: their import paths, loading by path, and the check of the classes that factories return."""

from __future__ import annotations

import importlib
from typing import Any

from sglang_platform.core.errors import HostError, PluginOrigin
from sglang_platform.core.sglang.versions import NEWEST, OLDEST, installed_version

__all__ = ["GROUP_COORDINATOR", "MODEL_RUNNER", "SCHEDULER", "check_part", "load"]

# The same names in every release from 0.5.11 to 0.5.23.
GROUP_COORDINATOR = "sglang.srt.distributed.parallel_state:GroupCoordinator"
MODEL_RUNNER = "sglang.srt.model_executor.model_runner:ModelRunner"
SCHEDULER = "sglang.srt.managers.scheduler:Scheduler"


def load(place: str) -> Any:
    """The object at `pkg.mod:name`. Raises HostError if SGLang does not have it."""
    module, name = place.split(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not module.startswith(str(error.name)):
            raise  # the module exists; one of its imports is missing
        raise HostError(
            f"SGLang {installed_version()} has no {place}",
            why=str(error),
            fix=f"use SGLang {OLDEST} to {NEWEST}, or a newer sglang-platform-core",
        ) from error


def check_part(cls: Any, accepted: tuple[type, ...], factory: str, origin: PluginOrigin | None) -> None:
    """Raises HostError unless `cls` is a class that derives from one of `accepted`."""
    if isinstance(cls, type) and issubclass(cls, accepted):
        return
    names = " or ".join(f"{base.__module__}.{base.__name__}" for base in accepted)
    raise HostError(
        f"{factory} answered {cls!r}, which SGLang cannot use",
        plugin=origin,
        why=f"a class is needed that derives from {names}",
        fix="return such a class, None for the host's own, or raise NotImplementedError with a reason",
    )
