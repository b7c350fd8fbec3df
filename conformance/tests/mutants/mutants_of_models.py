"""Mutants of models with states and of quantised checkpoints. Each needs an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from mutant import mutant

from sglang_platform.core.portable.torch.gated_delta import gated_delta_rule
from sglang_platform.core.portable.torch.state_space import state_space
from sglang_platform.example_oot.platform import ExampleOOTPlatform


def _forgets_to_decay(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, log_decay: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    return gated_delta_rule(q, k, v, torch.zeros_like(log_decay), *args, **kwargs)


@mutant(
    check="features.gated_delta_hybrid",
    defect="the kernel of the gated delta rule leaves out the decay",
    says="transformers gives",
    host="sglang",
)
class NeverForgets(ExampleOOTPlatform):
    def get_state_kernels(self) -> Mapping[str, Callable[..., Any]]:
        return {"gated_delta_rule": _forgets_to_decay}


def _starts_anew(*args: Any) -> torch.Tensor:
    """`state_space` with the states of requests that are resumed left unread."""
    *inputs, starts, slots, states = args
    if starts is not None:
        states[slots[slots >= 0].long()] = 0
    return state_space(*inputs, starts, slots, states)


@mutant(
    check="features.mamba2_hybrid",
    defect="a chunk of a prompt begins from an empty state, not from where the chunk before it ended",
    says="transformers gives",
    host="sglang",
)
class ForgetsTheChunkBefore(ExampleOOTPlatform):
    def get_state_kernels(self) -> Mapping[str, Callable[..., Any]]:
        return {"state_space": _starts_anew}


@mutant(
    check="features.checkpoint_unknown",
    defect="a quantisation method is declared that the platform has no configuration for",
    says="died",
    host="sglang",
)
class DeclaresWhatItCannotRun(ExampleOOTPlatform):
    supported_quantization = ["w8a8_int8", "bitsandbytes"]
