"""Core's general plugin for the diffusion runtime, which the runtime's loader calls in every process."""

from __future__ import annotations

from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.plugins import load_plugins
from sglang_platform.core.sglang.diffusion import counts, plugin_loop
from sglang_platform.core.sglang.start.guard import check_platform
from sglang_platform.core.sglang.start.plugin_loop import refusing_the_launch

__all__ = ["load"]


def load() -> None:
    """Check SGLang's platform, load the runtime's other general plugins by core's rules, apply all hooks.

    Called by the runtime's own loop, which ignores an `Exception` of plugins outside the selected platform's
    distribution. To stop the launch, this raises `LaunchRefused`, which does not derive from `Exception`.
    """
    with refusing_the_launch():
        check_platform(DIFFUSION)
        counts.register_hooks()
        plugin_loop.LOOP.take_over()
        load_plugins(kind=DIFFUSION)


plugin_loop.LOOP.leave_collected_to_core()
