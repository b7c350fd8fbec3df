"""Core's general plugin, which SGLang's loader calls in every process. It then loads all other plugins."""

from __future__ import annotations

import multiprocessing

from sglang_platform.core.discovery.current import current_platform
from sglang_platform.core.errors import HookError, LaunchRefused
from sglang_platform.core.hooks.registry import HookRegistry, plugin_source
from sglang_platform.core.plugins import OneLoad, load_plugins
from sglang_platform.core.sglang.arguments import host_limits
from sglang_platform.core.sglang.attention import choices as attention_choices
from sglang_platform.core.sglang.evidence import llm_counts, process_report
from sglang_platform.core.sglang.rebase import is_rebased
from sglang_platform.core.sglang.registration import LaunchSettings, check_launch
from sglang_platform.core.sglang.repairs import build_locks
from sglang_platform.core.sglang.start import all_hooks, llm_plugin_loop
from sglang_platform.core.sglang.start.guard import check_llm_platform, refuse_incomplete
from sglang_platform.core.sglang.start.plugin_loop import core_origin, refusal, refusing_the_launch
from sglang_platform.core.sglang.versions import facts

__all__ = ["load"]

_launch = OneLoad()


def load() -> None:
    """Check SGLang's platform, load the other general plugins by core's rules, apply all hooks.

    Called by SGLang's `load_plugins()`, which logs and swallows any `Exception`. To stop the launch, this raises
    `LaunchRefused`, which does not derive from `Exception`. After a failure SGLang's next call is refused as well.
    """
    try:
        with refusing_the_launch():
            _launch.run(_load)
    except BaseException:
        llm_plugin_loop.call_again(load)
        raise


def _load() -> None:
    process_report.keep_warnings()
    HookRegistry.late_errors_as(_refuse_from_now_on)
    check_llm_platform()
    refuse_incomplete()
    attention_choices.offer(current_platform)
    if multiprocessing.parent_process() is None:
        build_locks.sweep()
    with plugin_source(core_origin()):
        all_hooks.register_hooks(current_platform, facts())
        if is_rebased(current_platform) and current_platform.is_out_of_tree():
            host_limits.log(current_platform)
        llm_counts.register_hooks()
    llm_plugin_loop.LOOP.take_over()
    load_plugins()
    check_launch(LaunchSettings())
    process_report.keep()


def _refuse_from_now_on(error: HookError) -> LaunchRefused:
    """The error of a required hook that fails while a module is imported: SGLang skips models that fail to import."""
    _launch.error = refusal(error)
    llm_plugin_loop.call_again(load)
    return _launch.error


llm_plugin_loop.LOOP.leave_collected_to_core()
