"""The diffusion runtime's loader of general plugins, `sglang.multimodal_gen.runtime.platforms.plugins` (0.5.23).

It resolves its platform while it collects the plugins, then asks which distribution's plugins are required, and calls
all plugins in the order of installation. If our platform is active, core replaces all other plugins by no-ops at the
second query.
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
    """Make the runtime's loader in this process call core's general plugin only, which loads all others.

    Raises LaunchRefused if hooks that are already registered cannot be applied.
    """
    with plugin_source(core_origin()):
        soft(
            _ASKS, _when_asked, HookType.AFTER, without="general plugins may run twice, and not by our rules"
        )
    with refusing_the_launch():
        HookRegistry.apply_hooks()


def _when_asked(distribution: str | None) -> str | None:
    # SGLang also calls this outside its loop, and inside it before the table is filled.
    calls = LOOP.calls_in_progress() or {}
    if OWN_PLUGIN in calls:
        leave_to_core(calls)
    return distribution
