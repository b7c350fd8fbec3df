"""Core's general plugin in the diffusion runtime: its loader runs it in every process, and it takes over from there."""

from __future__ import annotations

import os
import sys
from typing import Any

from sglang_platform.core.counters import REPORT_DIR_VARIABLE
from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.errors import LaunchRefused, PlatformError
from sglang_platform.core.hosts.sglang.diffusion.adapter import PLATFORMS
from sglang_platform.core.hosts.sglang.diffusion.loader import take_over

__all__ = ["check_platform", "load"]


def load() -> None:
    """Check the host's platform, run the other general plugins of the runtime by our rules, apply all hooks.

    The host lets failures of plugins pass that do not belong to the selected platform's distribution; what must stop
    the launch leaves here as `LaunchRefused`, which is no `Exception`.
    """
    try:
        _load()
    except PlatformError as error:
        raise LaunchRefused.because(error) from error


def _load() -> None:
    from sglang_platform.core.plugins import load_plugins

    check_platform()
    if os.environ.get(REPORT_DIR_VARIABLE):
        from sglang_platform.core.hosts.sglang.diffusion import proof

        proof.register_hooks()
    load_plugins(already_run=take_over(), kind=DIFFUSION)


def check_platform() -> None:
    """Refuse the launch unless the runtime's `current_platform` and core's `current_mm_platform` are one object.

    Raises LaunchRefused with both decisions, PlatformError where our own rules refuse.
    """
    from sglang_platform.core.discovery.current_diffusion import current_mm_platform, process

    decision = process.decide()
    theirs: Any = sys.modules[PLATFORMS].current_platform
    process.follow_host()
    ours = current_mm_platform.device_name
    if process.is_platform(theirs):
        return
    name = decision.origin.name if decision.origin else None
    raise LaunchRefused(
        f"the diffusion runtime chose another platform ({theirs.device_name!r}) than the plugins call for ({ours!r})",
        plugin=decision.origin,
        why="the runtime asks installed entry points only, and resolved without this plugin",
        fix=f"install the plugin's package and set {DIFFUSION.variable}={name}; see `sglang-platform list --explain`"
        if name
        else "see `sglang-platform list --explain` and `sglang-platform doctor`",
    )
