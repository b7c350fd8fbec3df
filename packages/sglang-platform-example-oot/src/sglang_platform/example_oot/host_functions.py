"""Host functions that hooks replace: the host supports its built-in devices only, without a platform interface.

A vendor keeps what its kernels serve, and adds the next one the same way.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang_platform.core import HookRegistry, HookType, counter

from sglang_platform.example_oot import kernels

_CONVOLUTIONS = "sglang.srt.layers.attention.mamba.causal_conv1d"

_calls = counter("example_oot.short_conv.calls")


def register() -> None:
    """Register the hooks, before the host imports its models. On a release without these functions core's kernels
    serve."""
    for hook in (causal_conv1d_fn, causal_conv1d_update):
        HookRegistry.register(
            f"{_CONVOLUTIONS}:{hook.__name__}", hook, HookType.REPLACE, required=False,
            without="core's portable kernel serves short convolutions",
        )  # fmt: skip


def causal_conv1d_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    query_start_loc: torch.Tensor | None = None,
    cache_indices: torch.Tensor | None = None,
    has_initial_state: torch.Tensor | None = None,
    conv_states: torch.Tensor | None = None,
    activation: str | None = "silu",
    pad_slot_id: int = -1,
    **kwargs: Any,
) -> torch.Tensor:
    """Prefill: `x` [C, T], the requests' tokens one after the other."""
    _calls.add()
    tokens = x.T.contiguous()
    out = torch.zeros_like(tokens)
    silu, places = activation is not None, (query_start_loc, cache_indices)
    kernels.short_conv(tokens, weight, bias, *places, has_initial_state, conv_states, out, silu)
    return out.T


def causal_conv1d_update(
    x: torch.Tensor,
    conv_state: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    cache_seqlens: torch.Tensor | None = None,
    conv_state_indices: torch.Tensor | None = None,
    pad_slot_id: int = -1,
) -> torch.Tensor:
    """Decode: `x` [B, C], one token of each request."""
    if x.dim() != 2 or cache_seqlens is not None:
        raise NotImplementedError(
            "the example device's convolution takes one token per request and no ring buffer"
        )
    _calls.add()
    out = torch.zeros_like(x)
    silu = activation is not None
    kernels.short_conv(x, weight, bias, None, conv_state_indices, None, conv_state, out, silu)
    return out
