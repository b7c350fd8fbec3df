"""Core's own general plugin: SGLang's loader runs it in every process, and it takes over from there."""

from __future__ import annotations

import multiprocessing

from sglang_platform.core.discovery.current import current_platform
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookRegistry, plugin_source
from sglang_platform.core.hosts.sglang.rebase import is_rebased
from sglang_platform.core.hosts.sglang.seams import in_order
from sglang_platform.core.hosts.sglang.srt import (
    attention_choices,
    build_locks,
    guard,
    limits,
    loader,
    proof,
    report,
)
from sglang_platform.core.hosts.sglang.taking_over import core_origin, refusing_the_launch
from sglang_platform.core.hosts.sglang.versions import facts
from sglang_platform.core.plugins import load_plugins

__all__ = ["load"]


def load() -> None:
    """Check the host's platform, run the other general plugins by our rules, apply all hooks.

    Called by SGLang's `load_plugins()`, which logs and drops any `Exception`; what must stop the launch leaves here
    as `LaunchRefused`, which is none.
    """
    with refusing_the_launch():
        HookRegistry.late_errors_as(LaunchRefused.because)  # SGLang skips model modules that fail to import
        guard.check_platform()
        attention_choices.offer(current_platform)
        if multiprocessing.parent_process() is None:
            build_locks.sweep()
        with plugin_source(core_origin()):
            in_order.register_hooks(current_platform, facts())
            if is_rebased(current_platform):
                limits.warn(current_platform)
            proof.register_hooks()
        load_plugins(already_run=loader.LOOP.take_over())
        report.keep()


loader.LOOP.watch()
