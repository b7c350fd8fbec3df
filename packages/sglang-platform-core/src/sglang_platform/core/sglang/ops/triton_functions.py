"""Torch replacements for functions that the host has as Triton kernels only: the gate of shared experts (Qwen2-MoE,
Qwen3-Next), and the cap of logits (Gemma-2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import Feature, LaunchSettings, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def _has(field: str) -> Callable[[LaunchSettings], bool]:
    """Whether the model's configuration sets a field."""

    def is_used(launch: LaunchSettings) -> bool:
        if launch.model_config is None:
            return False
        config = launch.model_config.hf_config
        return any(getattr(one, field, None) for one in (config, config.get_text_config()))

    return is_used


_CAPPED = Feature("a model with capped logits (Gemma-2)", _has("final_logit_softcapping"))
_SHARED = Feature("a model with gated shared experts (Qwen2-MoE)", _has("shared_expert_intermediate_size"))


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the replacements for out-of-tree platforms without Triton."""
    if platform.is_out_of_tree() and not platform.capabilities.supports_triton:
        only_for(_CAPPED, host.caps_logits, _cap, HookType.REPLACE)
        if host.gates_shared_experts is not None:
            only_for(_SHARED, host.gates_shared_experts, _add_gated, HookType.REPLACE)


def _cap(full_logits: torch.Tensor, final_logit_softcapping: float) -> torch.Tensor:
    """`full_logits = cap * tanh(full_logits / cap)`, in place, computed in float32; [T, vocabulary]."""
    cap = final_logit_softcapping
    return full_logits.copy_(torch.tanh(full_logits.float() / cap) * cap)


def _add_gated(
    hidden_states: torch.Tensor,
    gate_weight: torch.Tensor,
    shared_output: torch.Tensor,
    final_hidden_states: torch.Tensor,
) -> None:
    """`final_hidden_states += sigmoid(hidden_states @ gate_weight) * shared_output`, in place; rows [T, D]."""
    gate = torch.sigmoid((hidden_states.float() * gate_weight.float()).sum(-1, keepdim=True))
    final_hidden_states.add_((gate * shared_output.float()).to(final_hidden_states.dtype))
