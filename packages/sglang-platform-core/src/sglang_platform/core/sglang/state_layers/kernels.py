"""Layers that keep a state per request (gated delta nets, Mamba-2, short convolutions) on a device without Triton.

The host has their kernels in Triton only, and calls them by name. Each is replaced by the platform's kernel from
`contract.state_kernels`, or by core's in plain torch. State snapshots for prefix reuse (the strategy `extra_buffer`)
need Triton as well: the host uses them only if the platform has them, and otherwise shares prefixes with a page size of
1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from sglang_platform.core.contract.state_kernels import STATE_KERNELS
from sglang_platform.core.errors import HostError
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.registration import Feature, LaunchSettings, only_for
from sglang_platform.core.sglang.state_layers import mamba
from sglang_platform.core.sglang.state_layers.unserved import only_without
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

Kernels = Mapping[str, Callable[..., Any]]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Replace the host's kernels on an out-of-tree platform without Triton."""
    if not platform.is_out_of_tree() or platform.capabilities.supports_triton:
        return
    feature = Feature("a model whose layers keep a state per request", partial(_has_states, host))
    kernels = {**PORTABLE_STATE_KERNELS, **_kernels_of(platform)}
    for target, replacement in {**_convolutions(host, kernels), **_delta_rule(host, kernels)}.items():
        only_for(feature, target, replacement, HookType.REPLACE)
    mamba.register_hooks(host, kernels, feature)
    if host.decides_on_snapshots is not None:
        only_for(feature, host.decides_on_snapshots, _snapshots(platform), HookType.AROUND)


def _has_states(host: HostFacts, launch: LaunchSettings) -> bool:
    if launch.model_config is None:
        return False
    try:
        return load(host.config_with_states)(launch.model_config) is not None
    except HostError:  # not in this release: SGLang's own kernels fail on such a model
        return False


def _kernels_of(platform: Any) -> Kernels:
    """The platform's own kernels. Raises HostError for a name that the contract does not have."""
    own: Kernels = platform.get_state_kernels()
    unknown = sorted(set(own) - set(STATE_KERNELS))
    if unknown:
        raise HostError(
            f"get_state_kernels() answers for {', '.join(unknown)}, and no kernel has such a name",
            plugin=getattr(platform, "_plugin_origin", None),
            why=f"the contract has {', '.join(STATE_KERNELS)}",
            fix="use those names",
        )
    return own


def _snapshots(platform: Any) -> Callable[..., bool]:
    def supports_mamba_cache_extra_buffer(original: Callable[..., bool], *args: Any, **kwargs: Any) -> bool:
        return bool(platform.support_mamba_cache_extra_buffer()) and original(*args, **kwargs)

    return supports_mamba_cache_extra_buffer


def _convolutions(host: HostFacts, kernels: Kernels) -> dict[str, Callable[..., Any]]:
    convolve = kernels["short_convolution"]

    def causal_conv1d_fn(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        conv_states: torch.Tensor,
        query_start_loc: torch.Tensor,
        seq_lens_cpu: Any = None,
        cache_indices: torch.Tensor | None = None,
        has_initial_state: torch.Tensor | None = None,
        activation: str | None = "silu",
        *rest: Any,
        **others: Any,
    ) -> torch.Tensor:
        count = query_start_loc.shape[0] - 1
        slots = torch.arange(count, device=x.device) if cache_indices is None else cache_indices[:count]
        resumes = torch.zeros(count, dtype=torch.bool) if has_initial_state is None else has_initial_state
        places = (query_start_loc, slots, resumes, conv_states)
        return convolve(x.T, weight, bias, *places, silu=activation is not None).T

    def causal_conv1d_update(
        x: torch.Tensor,
        conv_state: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        activation: str | bool | None = None,
        cache_seqlens: torch.Tensor | None = None,
        conv_state_indices: torch.Tensor | None = None,
        *rest: Any,
        **others: Any,
    ) -> torch.Tensor:
        only_without("causal_conv1d_update", rest, cache_seqlens=cache_seqlens, **others)
        if x.dim() != 2:
            only_without("causal_conv1d_update", tokens_per_request=x.shape[-1])
        slots = conv_state_indices
        if slots is None:
            slots = torch.arange(x.shape[0], device=x.device)
        return convolve(x, weight, bias, None, slots, None, conv_state, silu=bool(activation))

    module = f"{host.convolution_kernels}.causal_conv1d_triton"
    return {
        f"{module}:causal_conv1d_fn": causal_conv1d_fn,
        f"{module}:causal_conv1d_update": causal_conv1d_update,
    }


def _delta_rule(host: HostFacts, kernels: Kernels) -> dict[str, Callable[..., Any]]:
    rule, gates, norm = (kernels[n] for n in ("gated_delta_rule", "gated_delta_gates", "gated_rms_norm"))

    def fused_gdn_gating(
        A_log: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        dt_bias: torch.Tensor,
        *softplus: Any,
        **others: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        log_decay, step = gates(a, b, A_log, dt_bias)
        return log_decay[None], step[None]

    def chunk_gated_delta_rule(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor,
        beta: torch.Tensor,
        scale: float | None = None,
        initial_state: torch.Tensor | None = None,
        initial_state_indices: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | None = None,
        head_first: bool = False,
        use_qk_l2norm_in_kernel: bool = False,
        inplace_update: bool = True,
    ) -> tuple[torch.Tensor, None, torch.Tensor]:
        missing = not (use_qk_l2norm_in_kernel and inplace_update) or head_first or cu_seqlens is None
        only_without("chunk_gated_delta_rule", form_of_the_call=missing)
        places = (cu_seqlens, initial_state_indices, initial_state)
        out, before = rule(q[0], k[0], v[0], g[0], beta[0], *places, scale=scale or k.shape[-1] ** -0.5)
        return out[None], None, before[None]

    def fused_recurrent_gated_delta_rule_packed_decode(
        mixed_qkv: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        A_log: torch.Tensor,
        dt_bias: torch.Tensor,
        scale: float,
        initial_state: torch.Tensor,
        out: torch.Tensor,
        ssm_state_indices: torch.Tensor,
        use_qk_l2norm_in_kernel: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        only_without("packed_decode", keys_of_any_length=not use_qk_l2norm_in_kernel)
        value_heads, value_size, key_size = initial_state.shape[-3:]
        values = value_heads * value_size
        keys = (mixed_qkv.shape[1] - values) // 2
        q, k, v = mixed_qkv.split([keys, keys, values], dim=1)
        rows = (
            q.unflatten(1, (-1, key_size)),
            k.unflatten(1, (-1, key_size)),
            v.unflatten(1, (-1, value_size)),
        )
        log_decay, step = gates(a, b, A_log, dt_bias)
        y, _ = rule(*rows, log_decay, step, None, ssm_state_indices, initial_state, scale=scale)
        out.copy_(y[:, None])
        return out, initial_state

    def fused_sigmoid_gating_delta_rule_update(
        A_log: torch.Tensor,
        a: torch.Tensor,
        dt_bias: torch.Tensor,
        softplus_beta: float,
        softplus_threshold: float,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        b: torch.Tensor,
        initial_state_source: torch.Tensor,
        initial_state_indices: torch.Tensor,
        scale: float | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        cu_seqlens: torch.Tensor | None = None,
        *rest: Any,
        **others: Any,
    ) -> torch.Tensor:
        missing = not use_qk_l2norm_in_kernel or q.shape[1] != initial_state_indices.shape[0]
        only_without("fused_sigmoid_gating_delta_rule_update", rest, form_of_the_call=missing, **others)
        log_decay, step = gates(a, b, A_log, dt_bias)
        places = (None, initial_state_indices, initial_state_source)
        y, _ = rule(q[0], k[0], v[0], log_decay, step, *places, scale=scale or k.shape[-1] ** -0.5)
        return y[None]

    def rms_norm_gated(
        x: torch.Tensor,
        g: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        activation: str = "swish",
        residual: torch.Tensor | None = None,
        prenorm: bool = False,
        residual_in_fp32: bool = False,
        eps: float = 1e-6,
    ) -> torch.Tensor:
        only_without("rms_norm_gated", bias=bias, residual=residual, prenorm=prenorm)
        how = {"epsilon": eps, "activation": activation, "group_size": None, "gate_first": False}
        return norm(x, g, weight, **how)

    def layernorm_fn(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        z: torch.Tensor | None = None,
        eps: float = 1e-6,
        group_size: int | None = None,
        norm_before_gate: bool = True,
        is_rms_norm: bool = False,
        activation: str = "swish",
    ) -> torch.Tensor:
        only_without("layernorm_fn", bias=bias, norm_of_the_mean=not is_rms_norm)
        how = {"activation": activation, "group_size": group_size, "gate_first": not norm_before_gate}
        return norm(x, z, weight, epsilon=eps, **how)

    delta = host.delta_rule_kernels
    return {
        f"{host.delta_gate_kernels}.fused_gdn_gating:fused_gdn_gating": fused_gdn_gating,
        f"{delta}.chunk:chunk_gated_delta_rule": chunk_gated_delta_rule,
        f"{delta}.fused_recurrent:fused_recurrent_gated_delta_rule_packed_decode": (
            fused_recurrent_gated_delta_rule_packed_decode
        ),
        f"{host.delta_gate_kernels}.fused_sigmoid_gating_recurrent:fused_sigmoid_gating_delta_rule_update": (
            fused_sigmoid_gating_delta_rule_update
        ),
        f"{delta}.fused_norm_gate:rms_norm_gated": rms_norm_gated,
        f"{delta}.layernorm_gated:layernorm_fn": layernorm_fn,
        f"{host.delta_projection}:fused_qkvzba_split_reshape_cat": _split_by_head,
        f"{host.delta_projection}:fused_qkvzba_split_reshape_cat_contiguous": _split_by_part,
    }


def _split_by_head(
    mixed_qkvz: torch.Tensor,
    mixed_ba: torch.Tensor,
    num_heads_qk: int,
    num_heads_v: int,
    head_qk: int,
    head_v: int,
) -> tuple[torch.Tensor, ...]:
    """Split projections that are interleaved by key head: q, k, v, z (and b, a) of one head after another."""
    group = num_heads_v // num_heads_qk
    by_head = mixed_qkvz.unflatten(1, (num_heads_qk, -1))
    q, k, v, z = by_head.split([head_qk, head_qk, group * head_v, group * head_v], dim=2)
    b, a = mixed_ba.unflatten(1, (num_heads_qk, -1)).split([group, group], dim=2)
    qkv = torch.cat([part.flatten(1) for part in (q, k, v)], dim=1)
    return qkv, z.reshape(-1, num_heads_v, head_v), b.flatten(1), a.flatten(1)


def _split_by_part(
    mixed_qkvz: torch.Tensor,
    mixed_ba: torch.Tensor,
    num_heads_qk: int,
    num_heads_v: int,
    head_qk: int,
    head_v: int,
) -> tuple[torch.Tensor, ...]:
    """Split projections that hold q of all heads, then k, v and z (and b, then a)."""
    qkv, z = mixed_qkvz.split(
        [2 * num_heads_qk * head_qk + num_heads_v * head_v, num_heads_v * head_v], dim=1
    )
    b, a = mixed_ba.split([num_heads_v, num_heads_v], dim=1)
    return qkv.contiguous(), z.reshape(-1, num_heads_v, head_v), b.contiguous(), a.contiguous()
