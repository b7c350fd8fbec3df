"""Hosts: the engines a platform can be plugged into. Only modules below this folder import one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sglang_platform.core.errors import PluginOrigin

__all__ = ["HostAdapter", "active_diffusion_host", "active_host", "plugin_run_by_host"]


class HostAdapter(Protocol):
    """What discovery and plugin loading ask of the host they run in."""

    name: str

    @property
    def version(self) -> str:
        """The installed version of the host."""

    def platform_base(self) -> type:
        """The host's own platform base class."""

    def rebase_platform(self, cls: type, origin: PluginOrigin) -> type:
        """The class to instantiate in the host for a platform class; a class of the host's own passes as it is."""

    def own_platform(self) -> Any:
        """The host's own platform object, when no plugin is active."""


def active_host() -> HostAdapter | None:
    """The adapter of the host that this process runs, or None outside a host.

    Nothing is imported to find out: a host process is one in which the host's platform module is loaded.
    """
    if "sglang.srt.platforms" in sys.modules:
        from sglang_platform.core.hosts.sglang import ADAPTER

        return ADAPTER
    return None


def active_diffusion_host() -> HostAdapter | None:
    """The adapter to SGLang's diffusion runtime, or None in a process that does not run it."""
    if "sglang.multimodal_gen.runtime.platforms" in sys.modules:
        from sglang_platform.core.hosts.sglang.diffusion.adapter import ADAPTER

        return ADAPTER
    return None


def plugin_run_by_host() -> PluginOrigin | None:
    """The general plugin that a host's own loader is running now, if there is one."""
    module = sys.modules.get("sglang.srt.plugins.hook_registry")
    variable = getattr(module, "_current_plugin_source", None)
    source = variable.get() if variable is not None else None
    if source is None:
        return None
    from sglang_platform.core.errors import PluginOrigin

    return PluginOrigin(*source[:2])
