"""Leaves out the experts of other ranks, in SGLang's experts in plain torch and in a loader of their weights.

With expert parallelism SGLang replaces the id of another rank's expert by -1. Its Triton kernels skip that id; its
functions in plain torch use it as an index: `moe_forward_native` raises, which ends the worker, and
`fused_moe_forward_native`, for compiled models, adds the rank's last expert. The loader of tensors that hold all
experts (gpt-oss, unquantised) copies them into a rank's share, which does not fit.
"""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_NATIVE = "sglang.srt.layers.moe.fused_moe_native"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Skip the id -1 in both functions; a platform's own experts op is called before them."""
    soft(
        f"{_NATIVE}:moe_forward_native", _without_absent, HookType.AROUND,
        without="with expert parallelism SGLang's experts in plain torch end the worker",
    )  # fmt: skip
    soft(
        f"{_NATIVE}:fused_moe_forward_native", _with_absent_weighing_0, HookType.AROUND,
        without="with expert parallelism SGLang's experts in plain torch are wrong in compiled models",
    )  # fmt: skip
    soft(
        "sglang.srt.layers.moe.fused_moe_triton.layer:FusedMoE.weight_loader_fused", _load_share, HookType.AROUND,
        without="with expert parallelism an unquantised gpt-oss cannot be loaded",
    )  # fmt: skip


def _without_absent(
    original: Any, layer: Any, x: torch.Tensor, topk_output: Any, moe_runner_config: Any
) -> torch.Tensor:
    """Compute the pairs of a token and an expert of this rank alone; x [T, H], ids and weights [T, K]."""
    weights, ids = topk_output.topk_weights, topk_output.topk_ids
    here = ids >= 0
    tokens = here.nonzero(as_tuple=True)[0]
    if len(tokens) == ids.numel():
        return original(layer, x, topk_output, moe_runner_config)
    pairs = x.new_zeros(*ids.shape, x.shape[-1])
    if len(tokens):
        alone = topk_output._replace(
            topk_weights=weights.new_ones(len(tokens), 1), topk_ids=ids[here][:, None]
        )
        pairs[here] = original(layer, x[tokens], alone, moe_runner_config)
    return (pairs.to(weights.dtype) * weights[..., None]).sum(1).to(x.dtype)


def _with_absent_weighing_0(original: Any, layer: Any, dispatch_output: Any) -> Any:
    """Let expert 0 stand in with the weight 0: compiled code takes no shapes that depend on ids."""
    weights, ids, _ = topk_output = dispatch_output.topk_output
    here = topk_output._replace(topk_weights=weights.masked_fill(ids < 0, 0), topk_ids=ids.clamp(min=0))
    return original(layer, dispatch_output._replace(topk_output=here))


def _load_share(
    original: Any, layer: Any, param: torch.Tensor, loaded_weight: torch.Tensor, *args: Any, **kwargs: Any
) -> None:
    """Load the rows of this rank's experts."""
    share = param.shape[0]
    if share < len(loaded_weight) == layer.num_experts:
        loaded_weight = loaded_weight.narrow(0, layer.moe_ep_rank * share, share)
    original(layer, param, loaded_weight, *args, **kwargs)
