"""Mamba-2 layers on a device without Triton: the scan, the decode step, and the convolutions that the host does not
import there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import Feature, only_for
from sglang_platform.core.sglang.state_layers.unserved import only_without
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_MIXER = "sglang.srt.layers.attention.mamba.mamba"
_CONVOLUTIONS = ("causal_conv1d_fn", "causal_conv1d_update")


def register_hooks(host: HostFacts, kernels: Mapping[str, Callable[..., Any]], feature: Feature) -> None:
    """Replace the host's Mamba-2 kernels with the kernel `state_space`."""
    scan, step = _scan_and_step(host, kernels["state_space"])
    package = host.state_space_kernels
    only_for(feature, f"{package}.ssd_combined:mamba_chunk_scan_combined", scan, HookType.REPLACE)
    only_for(feature, f"{package}.ssu_dispatch:selective_state_update", step, HookType.REPLACE)

    def bind(*args: Any, **kwargs: Any) -> None:
        """Bind the convolutions that the mixer's module imports on the host's own devices only, but calls on any."""
        mixer = importlib.import_module(_MIXER)
        found = importlib.import_module(f"{host.convolution_kernels}.causal_conv1d_triton")
        for name in _CONVOLUTIONS:
            vars(mixer).setdefault(name, getattr(found, name))
            vars(mixer).setdefault(f"{name}_triton", getattr(found, name))

    only_for(feature, f"{_MIXER}:MambaMixer2.__init__", bind, HookType.BEFORE)


def _scan_and_step(
    host: HostFacts, state_space: Callable[..., torch.Tensor]
) -> tuple[Callable[..., Any], Callable[..., None]]:
    def mamba_chunk_scan_combined(
        x: torch.Tensor,
        dt: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        chunk_size: int,
        D: torch.Tensor | None = None,
        z: torch.Tensor | None = None,
        dt_bias: torch.Tensor | None = None,
        initial_states: torch.Tensor | None = None,
        seq_idx: torch.Tensor | None = None,
        chunk_indices: torch.Tensor | None = None,
        chunk_offsets: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | None = None,
        dt_softplus: bool = False,
        dt_limit: tuple[float, float] = (0.0, float("inf")),
        out: torch.Tensor | None = None,
        return_final_states: bool = False,
        return_varlen_states: bool = False,
        return_intermediate_states: bool = False,
        state_dtype: torch.dtype | None = None,
        return_track_states: bool = False,
        track_seq_idx: torch.Tensor | None = None,
        track_end_locs: torch.Tensor | None = None,
    ) -> Any:
        missing = not return_varlen_states or cu_seqlens is None or return_final_states
        only_without("mamba_chunk_scan_combined", z=z, form_of_the_call=missing, track_seq_idx=track_seq_idx)
        assert cu_seqlens is not None
        count = cu_seqlens.shape[0] - 1
        shape = (count, *x.shape[2:], B.shape[-1])
        if initial_states is None:
            states = torch.zeros(shape, dtype=state_dtype or x.dtype, device=x.device)
        else:
            states = initial_states.to(state_dtype or initial_states.dtype, copy=True)
        step = _positive(dt[0], dt_bias, dt_softplus).clamp(*dt_limit)
        slots = torch.arange(count, device=x.device)
        y = state_space(x[0], step, A, B[0], C[0], D, cu_seqlens, slots, states)
        if out is not None:
            out.copy_(y[None])
        if return_track_states:
            return None, states, None
        return (None, states) if return_intermediate_states else states

    def selective_state_update(
        state: torch.Tensor,
        x: torch.Tensor,
        dt: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        D: torch.Tensor | None = None,
        z: torch.Tensor | None = None,
        dt_bias: torch.Tensor | None = None,
        dt_softplus: bool = False,
        state_batch_indices: torch.Tensor | None = None,
        pad_slot_id: int = -1,
        out: torch.Tensor | None = None,
        *rest: Any,
        **others: Any,
    ) -> None:
        only_without("selective_state_update", rest, z=z, one_row_per_value=x.dim() != 3, **others)
        slots = state_batch_indices
        if slots is None:
            slots = torch.arange(x.shape[0], device=x.device)
        # The host broadcasts per-head parameters over the head's values: take the first of each.
        bias = None if dt_bias is None else dt_bias[:, 0]
        step = _positive(dt[:, :, 0], bias, dt_softplus)
        direct = None if D is None else D[:, 0]
        y = state_space(x, step, A[:, 0, 0], B, C, direct, None, slots, state)
        assert out is not None
        out.copy_(y)

    return mamba_chunk_scan_combined, selective_state_update


def _positive(dt: torch.Tensor, bias: torch.Tensor | None, softplus: bool) -> torch.Tensor:
    dt = dt.float() if bias is None else dt.float() + bias.float()
    return torch.nn.functional.softplus(dt) if softplus else dt
