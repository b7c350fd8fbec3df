"""Functions that the host has as Triton kernels only, with torch operators: the gate of shared experts (Qwen2-MoE,
Qwen3-Next), and the cap of logits (Gemma-2)."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """For out-of-tree platforms without Triton."""
    if platform.is_out_of_tree() and not platform.capabilities.supports_triton:
        HookRegistry.register(host.caps_logits, _cap, HookType.REPLACE)
        if host.gates_shared_experts is not None:
            HookRegistry.register(host.gates_shared_experts, _add_gated, HookType.REPLACE)


def _cap(logits: torch.Tensor, cap: float) -> torch.Tensor:
    """`logits = cap * tanh(logits / cap)`, in place, computed in float32; [T, vocabulary]."""
    return logits.copy_(torch.tanh(logits.float() / cap) * cap)


def _add_gated(
    hidden_states: torch.Tensor,
    gate_weight: torch.Tensor,
    shared_output: torch.Tensor,
    final_hidden_states: torch.Tensor,
) -> None:
    """`final_hidden_states += sigmoid(hidden_states @ gate_weight) * shared_output`, in place; rows [T, D]."""
    gate = torch.sigmoid((hidden_states.float() * gate_weight.float()).sum(-1, keepdim=True))
    final_hidden_states.add_((gate * shared_output.float()).to(final_hidden_states.dtype))
