"""A platform class of ours on the host's: re-based once, instantiated once, found by the plugin's name."""

from __future__ import annotations

from typing import Any, ClassVar

from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.sglang.rebase import rebase

__all__ = ["OneObject", "rebase_for", "rebased_class"]


class OneObject(type):
    """Metaclass of re-based platform classes: instantiating one gives core's lazy object, so that core and the host
    hold one object."""

    kind: ClassVar[PlatformKind]

    def __call__(cls) -> Any:
        _, process = lazy_platform(type(cls).kind)
        return process.adopt(cls)


def rebase_for(
    cls: type, origin: PluginOrigin, host_base: type, *, outer: type, metaclass: type[OneObject]
) -> type:
    """`cls` on `host_base`, with its plugin noted as `_plugin_origin`. A class on `host_base` is returned as it is."""
    rebased = rebase(cls, metaclass.kind.core_base(), host_base, outer=outer, metaclass=metaclass)
    if rebased is not cls:
        rebased._plugin_origin = origin  # type: ignore[attr-defined]
    return rebased


def rebased_class(kind: PlatformKind, name: str) -> type:
    """The re-based class of the active plugin, where `name` is the attribute name that `activate()` gave the host.

    Raises AttributeError for any other name.
    """
    if name.startswith("__"):  # the import system's own questions must not resolve a platform
        raise AttributeError(name)
    _, process = lazy_platform(kind)
    return process.host_platform_class(name)
