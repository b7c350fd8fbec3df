"""Core's own general plugin: SGLang's loader runs it in every process, and it takes over from there."""

from __future__ import annotations

import multiprocessing
import os

from sglang_platform.core.counters import REPORT_DIR_VARIABLE
from sglang_platform.core.errors import LaunchRefused, PlatformError

__all__ = ["load"]


def load() -> None:
    """Check the host's platform, run the other general plugins by our rules, apply all hooks.

    Called by SGLang's `load_plugins()`, which logs and drops any `Exception`; what must stop the launch leaves here
    as `LaunchRefused`, which is none.
    """
    try:
        _load()
    except PlatformError as error:
        raise LaunchRefused.because(error) from error


def _load() -> None:
    from sglang_platform.core.discovery import current
    from sglang_platform.core.hooks.registry import HookRegistry, plugin_source
    from sglang_platform.core.hosts.sglang.rebase import REBASED_MARK
    from sglang_platform.core.hosts.sglang.seams import answers as seams
    from sglang_platform.core.hosts.sglang.seams import processes
    from sglang_platform.core.hosts.sglang.seams import registries as registry_seams
    from sglang_platform.core.hosts.sglang.srt import build_locks, guard, limits, loader, report
    from sglang_platform.core.plugins import load_plugins

    HookRegistry.late_errors_as(LaunchRefused.because)  # SGLang skips model modules that fail to import
    guard.check_platform()
    guard.offer_attention_backends()
    platform = current.current_platform
    with plugin_source(loader.core_origin()):
        if multiprocessing.parent_process() is None:
            build_locks.sweep()
        processes.register_hooks()
        registry_seams.register_hooks()
        if getattr(type(platform), REBASED_MARK, False):
            seams.register_hooks(platform)
            limits.warn(platform)
        if os.environ.get(REPORT_DIR_VARIABLE):
            from sglang_platform.core.hosts.sglang.srt import proof

            proof.register_hooks()
    load_plugins(already_run=loader.take_over())
    report.keep()
