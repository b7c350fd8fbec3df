"""Checks in every process of the host that it ended on the platform our rules give."""

from __future__ import annotations

import sys
from typing import Any

from sglang_platform.core.discovery import current
from sglang_platform.core.errors import LaunchRefused

__all__ = ["check_platform", "offer_attention_backends"]


def check_platform() -> None:
    """Refuse the launch unless SGLang's `current_platform` and core's are one object.

    Raises LaunchRefused with both decisions, PlatformError where our own rules refuse.
    """
    host: Any = sys.modules["sglang.srt.platforms"]
    decision = current.decide()
    if decision.origin is not None and host._current_platform is None:
        # The host has not asked yet, and might not find a plugin that was named without being installed.
        host._current_platform = current.current_platform
    ours = current.current_platform.device_name
    current.follow_host()
    theirs = host.current_platform
    if current.is_current_platform(theirs):
        return
    name = decision.origin.name if decision.origin else None
    raise LaunchRefused(
        f"SGLang chose another platform ({theirs.device_name!r}) than the installed plugins call for ({ours!r})",
        plugin=decision.origin,
        why="SGLang resolved its platform before this plugin could answer, or swallowed its failure",
        fix=f"install the plugin's package and set SGLANG_PLATFORM={name}; see `sglang-platform list --explain`"
        if name
        else "see `sglang-platform list --explain` and `sglang-platform doctor`",
    )


def offer_attention_backends() -> None:
    """Teach SGLang's command line the active platform's attention backend names, before it parses."""
    names = list(getattr(current.current_platform, "get_attention_backends", dict)())
    if names:
        from sglang.srt.server_args import add_attention_backend_choices

        add_attention_backend_choices(names)
