"""The platform's attention backends as choices of SGLang's command line."""

from __future__ import annotations

from typing import Any

__all__ = ["offer"]


def offer(platform: Any) -> None:
    """Add the platform's attention backend names to SGLang's choices, before its command line is parsed.

    Two lists: the choices of `--attention-backend` and related options, and from 0.5.18 those of the draft model's
    options.
    """
    names = list(getattr(platform, "get_attention_backends", dict)())
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
