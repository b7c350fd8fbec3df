"""Structured output: apply a grammar's token mask to logits on the platform's device.

SGLang applies the mask with kernels for the device types it knows (xgrammar) or compiles it with inductor (llguidance).
On any other device, the first request for JSON ends the server. Outlines' mask is a plain torch operator.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_
from sglang_platform.core.sglang.arguments.server_args import asked_for, register_rule
from sglang_platform.core.sglang.registration import is_lost, soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_WITHOUT = "requests for structured output with this grammar backend are refused"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Apply masks with the platform's function; an out-of-tree platform without one gets core's."""
    apply = platform.get_token_bitmask_fn()
    if apply is None:
        if not platform.is_out_of_tree():
            return
        apply = apply_token_bitmask_

    def of_a_grammar(grammar: Any, logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        apply(logits, vocab_mask)

    def of_a_backend(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        apply(logits, vocab_mask)

    for place in host.applies_grammar_mask:
        soft(place, of_a_grammar, HookType.REPLACE, without=_WITHOUT)
    for place in host.applies_grammar_mask_statically:
        soft(place, of_a_backend, HookType.REPLACE, without=_WITHOUT)
    places = (*host.applies_grammar_mask, *host.applies_grammar_mask_statically)
    register_rule(platform, host, lambda server_args: _leave_out_lost(server_args, platform, places))


def _leave_out_lost(server_args: Any, platform: Any, places: tuple[str, ...]) -> None:
    """Disable grammars if the backend's mask function could not be hooked: SGLang's own would end the server.

    Raises LaunchRefused if the operator asked for that backend.
    """
    backend = server_args.grammar_backend
    lost = [place for place in places if is_lost(place) and f"{backend}_backend" in place]
    if not lost:
        return
    if asked_for(server_args, "grammar_backend"):
        raise LaunchRefused(
            f"--grammar-backend {backend} is not served on the platform {platform.device_name!r}",
            plugin=getattr(platform, "_plugin_origin", None),
            why=f"this SGLang has no {', '.join(lost)}, where the platform's mask goes",
            fix="leave it out (requests for structured output are then refused), or give 'outlines'",
        )
    server_args.grammar_backend = "none"
