"""Reading SGLang's server arguments: what the operator asked for, as against what the host filled in."""

from __future__ import annotations

from typing import Any

__all__ = ["asked_for", "choose_attention_backend"]

_ATTENTION = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")


def asked_for(server_args: Any, field: str) -> Any:
    """The value the operator gave for `field`, None where none was given.

    SGLang 0.5.23 resolves arguments in steps and keeps the raw input beside them; older ones have only the value.
    """
    raw = getattr(server_args, "_raw_input", None)
    return raw.get(field) if isinstance(raw, dict) else getattr(server_args, field, None)


def choose_attention_backend(server_args: Any, default: str) -> None:
    """Make `default` the attention backend unless the operator named one.

    Needed because on device type "cpu" the host fills in a backend of its own before it asks the platform.
    """
    if not any(asked_for(server_args, field) for field in _ATTENTION):
        server_args.attention_backend = default
