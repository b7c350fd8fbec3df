"""The changes that a plugin makes to a host: registered hooks, monkey-patches, and stand-in modules."""

from __future__ import annotations

import ast
from typing import NamedTuple

from sglang_platform.core.hooks.types import HookType
from sglang_platform.devtools.source.signatures import FunctionNode

__all__ = ["StandIn", "UnreadPlace", "WantedHook", "WrittenHook"]


class WrittenHook(NamedTuple):
    """A hook as a plugin's source registers it. `node` is None where the source does not show the function."""

    type: HookType
    name: str
    node: FunctionNode | ast.ClassDef | None


class WantedHook(NamedTuple):
    """A target to check, with what is known of the hook."""

    target: str
    hook: WrittenHook | None = None
    required: bool = True
    where: str | None = None
    """Where the hook is registered: ``my_plugin/hooks.py:12``."""
    plugin: str | None = None
    on_host: bool = False
    """On SGLang's own registry, or a monkey-patch: nothing checks at run time whether it fits."""
    written: bool = False
    """A monkey-patch: ``module.name = function``."""


class StandIn(NamedTuple):
    """A module that the plugin puts into `sys.modules` under this name."""

    module: str
    where: str


class UnreadPlace(NamedTuple):
    """A place whose target the source does not show."""

    place: str
    is_write: bool = False
