"""Checks in every process of the host that it ended on the platform our rules give."""

from __future__ import annotations

import sys
from typing import Any

from sglang_platform.core.errors import LaunchRefused

__all__ = ["check_platform", "offer_attention_backends"]


def check_platform() -> None:
    """Refuse the launch unless SGLang's `current_platform` and core's are one object.

    Raises LaunchRefused with both decisions, PlatformError where our own rules refuse.
    """
    from sglang_platform.core.discovery import current

    ours: Any = current.current_platform
    wanted = ours.device_name  # the first touch resolves, or raises with the reason
    theirs = sys.modules["sglang.srt.platforms"].current_platform
    decision = current.decision()
    if theirs is ours or decision is None or decision.platform_class is None:
        return
    raise LaunchRefused(
        f"SGLang chose another platform ({theirs!r}) than the installed plugins call for ({wanted!r})",
        plugin=decision.origin,
        why="SGLang resolved its platform before this plugin could answer, or swallowed its failure",
        fix=f"set SGLANG_PLATFORM={decision.origin.name if decision.origin else '<name>'} and read "
        "`sglang-platform list --explain`",
    )


def offer_attention_backends() -> None:
    """Teach SGLang's command line the active platform's attention backend names, before it parses."""
    from sglang_platform.core.discovery.current import current_platform

    names = list(getattr(current_platform, "get_attention_backends", dict)())
    if names:
        from sglang.srt.server_args import add_attention_backend_choices

        add_attention_backend_choices(names)
