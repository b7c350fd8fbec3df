"""A plugin's platform class, re-based on SGLang's: re-based once, instantiated once, looked up by plugin name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar

from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.process import host_attribute
from sglang_platform.core.discovery.refusals import plugin_failed
from sglang_platform.core.errors import PlatformError, PluginOrigin
from sglang_platform.core.host import DecodeAsked, HostRuntime, PoolAsked
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.rebase import rebase
from sglang_platform.core.sglang.versions import installed_version

__all__ = ["OneObject", "RuntimeAdapter", "rebase_for", "rebased_class"]


class OneObject(type):
    """Metaclass of re-based platform classes: a singleton that core and SGLang share (core's lazy object)."""

    kind: ClassVar[PlatformKind]

    def __call__(cls) -> Any:
        kind = type(cls).kind
        try:
            return lazy_platform(kind)[1].adopt(cls)
        except PlatformError:
            kind.host.forget_import()
            raise


def rebase_for(
    cls: type, origin: PluginOrigin, host_base: type, *, outer: type, metaclass: type[OneObject]
) -> type:
    """`cls` re-based on `host_base`, with `_plugin_origin` set. A subclass of `host_base` is returned unchanged."""
    rebased = rebase(cls, metaclass.kind.core_base(), host_base, outer=outer, metaclass=metaclass)
    if rebased is not cls:
        rebased._plugin_origin = origin  # type: ignore[attr-defined]
    return rebased


def rebased_class(kind: PlatformKind, name: str) -> type:
    """The re-based class of the active plugin, if `name` is the attribute name that `activate()` returned to SGLang.

    Raises AttributeError for any other name.
    """
    if name.startswith("__"):  # attribute lookups of the import system must not resolve a platform
        raise AttributeError(name)
    host, (origin, cls, trace) = kind.host.adapter(), lazy_platform(kind)[1].decide()
    if host is None or origin is None or cls is None or host_attribute(origin.name) != name:
        raise AttributeError(f"{name!r} is not the active platform plugin ({trace.outcome})")
    return host.rebase_platform(cls, origin)


class RuntimeAdapter:
    """One runtime of SGLang as a host; implements `sglang_platform.core.host.HostAdapter`."""

    def __init__(
        self,
        name: str,
        runtime: HostRuntime,
        *,
        platform_base: str,
        rebase_platform: Callable[[type, PluginOrigin], type],
    ) -> None:
        self.name = name
        self.pool_asked: PoolAsked | None = None
        self._runtime = runtime
        self._platform_base = platform_base
        self._rebase_platform = rebase_platform

    @property
    def version(self) -> str:
        return installed_version()

    def platform_base(self) -> type:
        base: type = load(self._platform_base)
        return base

    def rebase_platform(self, cls: type, origin: PluginOrigin) -> type:
        """The plugin's class re-based on SGLang's base class. Raises PluginFailed if the two are incompatible."""
        try:
            return self._rebase_platform(cls, origin)
        except PlatformError:
            raise
        except Exception as error:
            raise plugin_failed(
                f"the platform class of plugin {origin.name!r} cannot be put on {self.name} {self.version}",
                origin,
                error,
                fix=f"see which base classes {cls.__qualname__} mixes",
            ) from error

    def decode_asked(self, server_args: Any) -> DecodeAsked | None:
        # Imported in the process that resolves the arguments of a launch only.
        from sglang_platform.core.sglang.arguments.decode_attention import decode_asked

        return decode_asked(server_args)

    def own_platform(self) -> Any:
        return sys.modules[self._runtime.platform_module].current_platform
