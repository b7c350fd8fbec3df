"""Load plugins in every process that SGLang starts.

Up to 0.5.21 only the launcher and the schedulers call `load_plugins()`; from 0.5.22 the detokenizer and the
data-parallel controller do as well, and tokenizer workers and routers never do. So the parent process wraps the target
of each child process, and the child loads its plugins before it runs the target. A child reads the variables that
choose plugins from the environment, so a parent that has changed them since it loaded its own is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.discovery.settings import PLUGINS_VARIABLE
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["PluginsFirst", "register_hooks"]

# `uvicorn` runs the tokenizer workers.
_OURS_TO_WRAP = ("sglang", "uvicorn")


_VARIABLES = (SRT.variable, SRT.development_variable, PLUGINS_VARIABLE)
_loaded_with: dict[str, str | None] = {}


class PluginsFirst:
    """A process target that loads the plugins first. Pickled to spawned processes."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target
        self.__name__ = getattr(target, "__name__", type(target).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from sglang.srt.plugins import load_plugins

        load_plugins()
        # The target was unpickled before the hooks were applied, and may be the unhooked function.
        return _as_it_is_now(self.target)(*args, **kwargs)


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Wrap the target of every child process that runs SGLang's code."""
    _loaded_with.update({name: os.environ.get(name) for name in _VARIABLES})
    required(
        "multiprocessing.process:BaseProcess.__init__", _wrap_target, HookType.BEFORE,
        without="processes that SGLang starts run without plugins",
    )  # fmt: skip


def _wrap_target(process: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    values = list(args)
    target = kwargs.get("target", values[1] if len(values) > 1 else None)
    if target is None or isinstance(target, PluginsFirst) or not _runs_the_host(target):
        return None
    _refuse_other_variables()
    if "target" in kwargs:
        kwargs["target"] = PluginsFirst(target)
    else:
        values[1] = PluginsFirst(target)
    return (process, *values), kwargs


def _refuse_other_variables() -> None:
    changed = [
        name for name, value in _loaded_with.items() if (os.environ.get(name) or None) != (value or None)
    ]
    if changed:
        raise LaunchRefused(
            f"{', '.join(changed)} changed after this process loaded its plugins",
            why="; ".join(
                f"{name} was {_loaded_with[name]!r}, now {os.environ.get(name)!r}" for name in changed
            )
            + ": the processes that SGLang starts would load other plugins than this one",
            fix="set it before the first import of SGLang, in a new process",
        )


def _runs_the_host(target: Any) -> bool:
    module = getattr(target, "__module__", None) or getattr(getattr(target, "func", None), "__module__", "")
    return str(module).partition(".")[0] in _OURS_TO_WRAP


def _as_it_is_now(target: Callable[..., Any]) -> Callable[..., Any]:
    name, module = getattr(target, "__qualname__", ""), sys.modules.get(getattr(target, "__module__", ""))
    found = getattr(module, name, None) if name.isidentifier() else None
    return found if callable(found) else target
