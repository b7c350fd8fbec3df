"""The diffusion runtime's loader of general plugins, `sglang.multimodal_gen.runtime.platforms.plugins` (0.5.23).

It asks for its platform while it collects the plugins, asks again whose plugins are required, and then calls them in
the order of installation. Where our platform is active, core empties all other calls when it is asked the second time.
"""

from __future__ import annotations

from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.hooks.registry import HookRegistry, HookType, plugin_source
from sglang_platform.core.host import DIFFUSION_RUNTIME
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.start.plugin_loop import (
    PluginLoop,
    core_origin,
    leave_to_core,
    refusing_the_launch,
)

__all__ = ["LOOP", "become_the_only_plugin"]

LOOP = PluginLoop(f"{DIFFUSION_RUNTIME.platform_module}.plugins", "_discover", "_register_plugins_once")

_ASKS = f"{DIFFUSION_RUNTIME.platform_module}:get_selected_platform_dist"


def become_the_only_plugin() -> None:
    """Make the runtime's loader, in this process, run core's general plugin and leave all others to it.

    Raises LaunchRefused where hooks that are registered already cannot be applied.
    """
    with plugin_source(core_origin()):
        soft(
            _ASKS, _when_asked, HookType.AFTER, without="general plugins may run twice, and not by our rules"
        )
    with refusing_the_launch():
        HookRegistry.apply_hooks()


def _when_asked(distribution: str | None) -> str | None:
    # The host asks outside its loop too, and inside it before the table is filled.
    calls = LOOP.calls_in_progress() or {}
    if OWN_PLUGIN in calls:
        leave_to_core(calls)
    return distribution
