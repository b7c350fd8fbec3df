"""Structured output: a grammar's mask on logits that live on the platform's device.

SGLang hands the logits to kernels of its own device types (xgrammar) or compiles the mask with inductor (llguidance);
any other device ends its server with the first request that asks for JSON. Outlines' mask is a plain torch operator.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Apply every grammar's mask by the platform's function; core's for an out-of-tree platform that has none."""
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
        HookRegistry.register(place, of_a_grammar, HookType.REPLACE)
    for place in host.applies_grammar_mask_statically:
        HookRegistry.register(place, of_a_backend, HookType.REPLACE)
