"""Checks in every process of the host that it ended on the platform our rules give."""

from __future__ import annotations

import sys
from typing import Any

from sglang_platform.core.discovery import current
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hosts.sglang.srt import stubs

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
    stubs.withdraw()
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
    """Teach the host the active platform's attention backend names, before its command line parses.

    Two lists: the choices of `--attention-backend` and its kin, and, from 0.5.18, those of the draft model's.
    """
    names = list(getattr(current.current_platform, "get_attention_backends", dict)())
    if not names:
        return
    from sglang.srt import server_args

    for choices, add in (
        ("ATTENTION_BACKEND_CHOICES", "add_attention_backend_choices"),
        ("DRAFT_ATTENTION_BACKEND_CHOICES", "add_draft_attention_backend_choices"),
    ):
        known = getattr(server_args, choices, None)
        if known is not None and hasattr(server_args, add):
            getattr(server_args, add)([name for name in names if name not in known])
