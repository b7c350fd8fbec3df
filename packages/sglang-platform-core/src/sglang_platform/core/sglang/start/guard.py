"""The check, in every SGLang process, that SGLang chose the platform that core's rules select."""

from __future__ import annotations

import importlib
from typing import Any

from sglang_platform.core.contract.completeness import incomplete
from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.kind import SRT, PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.sglang.device import stubs

__all__ = ["check_llm_platform", "check_platform", "refuse_incomplete"]


def check_platform(kind: PlatformKind) -> None:
    """Refuse the launch unless the runtime's `current_platform` is core's platform object.

    Raises LaunchRefused with both decisions, or PlatformError if core's own rules refuse.
    """
    host: Any = importlib.import_module(
        kind.host.platform_module
    )  # 0.5.11 loads plugins before it imports this module
    ours, process = lazy_platform(kind)
    decision = process.decide()
    wanted = ours.device_name
    process.follow_host()
    theirs = host.current_platform
    if process.is_platform(theirs):
        return
    name = decision.origin.name if decision.origin else None
    explain = "see `sglang-platform list --explain`"
    raise LaunchRefused(
        f"SGLang's {kind.runtime} runtime chose another platform ({theirs.device_name!r}) than the installed plugins "
        f"call for ({wanted!r})",
        plugin=decision.origin,
        why="SGLang resolved its platform before this plugin could answer, or without it, or swallowed its failure",
        fix=f"install the plugin's package and set {kind.variable}={name}; {explain}"
        if name
        else f"{explain} and `sglang-platform doctor`",
    )


def check_llm_platform() -> None:
    """`check_platform` for the LLM runtime; removes our stubs if SGLang chose another platform."""
    host: Any = importlib.import_module(SRT.host.platform_module)
    if current.decide().origin is not None and host._current_platform is None:
        # SGLang has not resolved its platform yet, and might not find a plugin that was named but not installed.
        host._current_platform = current.current_platform
    try:
        check_platform(SRT)
    except LaunchRefused:
        stubs.withdraw()
        raise


def refuse_incomplete() -> None:
    """Raise the ContractError that lists what the chosen platform lacks; SGLang would fail on one at a time."""
    decision = current.decide()
    if decision.platform_class is None:
        return
    error = incomplete(decision.platform_class, current.current_platform, decision.origin)
    if error is not None:
        raise error
