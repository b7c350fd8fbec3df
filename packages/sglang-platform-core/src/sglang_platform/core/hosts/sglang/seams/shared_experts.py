"""The gate of shared experts (Qwen2-MoE, Qwen3-Next) on a device without Triton: the host has it as a Triton kernel."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Add the gated output of the shared experts with torch operators, on an out-of-tree platform without Triton."""
    if (
        not platform.is_out_of_tree()
        or platform.capabilities.supports_triton
        or host.gates_shared_experts is None
    ):
        return
    HookRegistry.register(host.gates_shared_experts, _add_gated, HookType.REPLACE)


def _add_gated(
    hidden_states: torch.Tensor,
    gate_weight: torch.Tensor,
    shared_output: torch.Tensor,
    final_hidden_states: torch.Tensor,
) -> None:
    """`final_hidden_states += sigmoid(hidden_states @ gate_weight) * shared_output`, in place; rows [T, D]."""
    gate = torch.sigmoid((hidden_states.float() * gate_weight.float()).sum(-1, keepdim=True))
    final_hidden_states.add_((gate * shared_output.float()).to(final_hidden_states.dtype))
