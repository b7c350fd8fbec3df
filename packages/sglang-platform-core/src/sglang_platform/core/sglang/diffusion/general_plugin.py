"""Core's general plugin in the diffusion runtime: its loader runs it in every process, and it takes over from there."""

from __future__ import annotations

from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.plugins import load_plugins
from sglang_platform.core.sglang.diffusion import counts, plugin_loop
from sglang_platform.core.sglang.start.guard import check_platform
from sglang_platform.core.sglang.start.plugin_loop import refusing_the_launch

__all__ = ["load"]


def load() -> None:
    """Check the host's platform, run the other general plugins of the runtime by our rules, apply all hooks.

    Called by the runtime's own loop, which lets failures pass of plugins that are not of the selected platform's
    distribution; what must stop the launch leaves here as `LaunchRefused`, which is no `Exception`.
    """
    with refusing_the_launch():
        check_platform(DIFFUSION)
        counts.register_hooks()
        plugin_loop.LOOP.take_over()
        load_plugins(kind=DIFFUSION)


plugin_loop.LOOP.leave_collected_to_core()
