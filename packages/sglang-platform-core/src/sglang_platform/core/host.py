"""The hosts (engines that a platform plugs into), as data. Imports neither a host nor its adapter.

Discovery, plugin loading and hooks ask here whether this process runs a host, and get its adapter. The adapter
to SGLang is in `sglang/`; another host is a row here.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple, Protocol

from sglang_platform.core.errors import PluginOrigin

__all__ = [
    "DIFFUSION_RUNTIME",
    "LLM_RUNTIME",
    "DecodeAsked",
    "HostAdapter",
    "HostRuntime",
    "PoolAsked",
    "active_host",
    "meet_undecorated",
    "plugin_run_by_host",
]


class PoolAsked(NamedTuple):
    """The KV pool that a host is about to build."""

    dtype: str
    """What it stores, by torch's name without the prefix."""
    only_the_hosts: str = ""
    """The reason why this launch needs the host's own class; empty if another class may be used."""


class DecodeAsked(NamedTuple):
    """The decode attention of a launch that the platform's backend may serve beside the host's prefill.

    beside: the host's attention backend, which serves prefill in any case. latent: absorbed MLA, one row per token.
    eight_bit: the cache holds 8-bit floats, otherwise bfloat16. group: query heads of a rank for one KV head. dim:
    columns of a key.
    """

    beside: str
    latent: bool
    eight_bit: bool
    group: int
    dim: int
    page_size: int


class HostAdapter(Protocol):
    """The interface to the host that discovery and plugin loading use."""

    name: str
    pool_asked: PoolAsked | None
    """Set while the host asks for the class of a KV pool."""

    @property
    def version(self) -> str:
        """The installed version of the host."""

    def platform_base(self) -> type:
        """The host's own platform base class."""

    def rebase_platform(self, cls: type, origin: PluginOrigin) -> type:
        """The class to instantiate in the host for a platform class; a class of the host's own passes as it is."""

    def decode_asked(self, server_args: Any) -> DecodeAsked | None:
        """The decode attention of a launch with these resolved arguments; None if no other backend may serve it."""

    def own_platform(self) -> Any:
        """The host's own platform object, when no plugin is active."""


class HostRuntime(NamedTuple):  # a dataclass would import inspect, which registering a hook must avoid
    """One runtime of a host: how to detect it in a process, and the location of its adapter."""

    platform_module: str
    """The host's module that keeps its platform object. A process in which it is loaded runs this runtime."""

    adapter_place: str
    """Where its `HostAdapter` is, `pkg.mod:NAME`; imported only in a process that runs the runtime."""

    rebased_classes: str
    """The module of its adapter whose attributes are the re-based platform classes, by plugin name."""

    def runs_here(self) -> bool:
        """Whether this process runs the runtime. Nothing is imported to find out."""
        return self.platform_module in sys.modules

    def forget_import(self) -> None:
        """Drop the host's modules if it is still being imported: its import is about to fail, and Python could not
        import it again beside the modules that are complete."""
        package = self.platform_module.partition(".")[0]
        if getattr(getattr(sys.modules.get(package), "__spec__", None), "_initializing", False):
            for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
                del sys.modules[name]

    def adapter(self) -> HostAdapter | None:
        """The adapter to the runtime, or None in a process that does not run it."""
        if not self.runs_here():
            return None
        module, name = self.adapter_place.split(":")
        adapter: HostAdapter = getattr(importlib.import_module(module), name)
        return adapter


LLM_RUNTIME = HostRuntime(
    platform_module="sglang.srt.platforms",
    adapter_place="sglang_platform.core.sglang.start.llm_platform:ADAPTER",
    rebased_classes="sglang_platform.core.sglang.start.activated",
)
"""SGLang's LLM runtime."""

DIFFUSION_RUNTIME = HostRuntime(
    platform_module="sglang.multimodal_gen.runtime.platforms",
    adapter_place="sglang_platform.core.sglang.diffusion.platform:ADAPTER",
    rebased_classes="sglang_platform.core.sglang.diffusion.activated",
)
"""SGLang's diffusion runtime."""

# A context variable of the host that holds (name, distribution) while the host runs a general plugin.
_RUNNING_PLUGIN = ("sglang.srt.plugins.hook_registry", "_current_plugin_source")


_CLASS_CHECK = "sglang_platform.core.sglang.start.class_check"


def meet_undecorated() -> None:
    """In a process that runs a host: what the host says of a class on core's contract is said in core's words.

    Called when such a class is created, which may be the first code of core in the process.
    """
    if LLM_RUNTIME.runs_here() or DIFFUSION_RUNTIME.runs_here():
        importlib.import_module(_CLASS_CHECK).install()


def active_host() -> HostAdapter | None:
    """The adapter to the LLM runtime, or None in a process that does not run it."""
    return LLM_RUNTIME.adapter()


def plugin_run_by_host() -> PluginOrigin | None:
    """The general plugin that a host's own loader is running now, if there is one."""
    module, name = _RUNNING_PLUGIN
    variable = getattr(sys.modules.get(module), name, None)
    source = variable.get() if variable is not None else None
    return None if source is None else PluginOrigin(*source[:2])
