"""Computes experts in SGLang's plain torch on one rank, and on the ranks of a group, each with a share of the experts.

Prints, for each case, the largest difference of the ranks' sum, and whether the results of one rank are unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.moe import fused_moe_native
from sglang.srt.layers.moe.moe_runner import MoeRunnerConfig
from sglang.srt.layers.moe.token_dispatcher import StandardDispatchOutput
from sglang.srt.layers.moe.topk import StandardTopKOutput

from sglang_platform.core.hooks.registry import HookRegistry
from sglang_platform.core.sglang.repairs import absent_experts
from sglang_platform.core.sglang.versions import facts

HIDDEN, INNER, EXPERTS = 16, 24, 8
Forward = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def loop(layer: Any, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    topk = StandardTopKOutput(weights, ids, None)
    return fused_moe_native.moe_forward_native(layer, x, topk, layer.moe_runner_config)


def compiled(layer: Any, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    dispatched = StandardDispatchOutput(x, None, StandardTopKOutput(weights, ids, None))
    forward = torch.compile(fused_moe_native.fused_moe_forward_native, backend="eager", fullgraph=True)
    return forward(layer=layer, dispatch_output=dispatched).hidden_states


def layer_of(experts: slice, dtype: torch.dtype, biased: bool, **config: Any) -> Any:
    random = torch.Generator().manual_seed(1)
    shapes = {
        "w13_weight": (2 * INNER, HIDDEN),
        "w2_weight": (HIDDEN, INNER),
        "w13_weight_bias": (2 * INNER,),
        "w2_weight_bias": (HIDDEN,),
    }
    parameters = {
        name: torch.randn(EXPERTS, *shape, generator=random)[experts].to(dtype)
        for name, shape in shapes.items()
        if biased or not name.endswith("bias")
    }
    settings = MoeRunnerConfig(**{"activation": "silu", **config})
    return SimpleNamespace(num_experts=EXPERTS, moe_runner_config=settings, **parameters)


def choice(tokens: int, per_token: int) -> tuple[torch.Tensor, torch.Tensor]:
    scores = torch.randn(tokens, EXPERTS, generator=torch.Generator().manual_seed(2))
    weights, ids = scores.softmax(-1).topk(per_token)
    return weights, ids.to(torch.int32)


def local(ids: torch.Tensor, first: int, count: int) -> torch.Tensor:
    here = (ids >= first) & (ids < first + count)
    return torch.where(here, ids - first, -1)


def of_ranks(forward: Forward, ranks: int, tokens: int, per_token: int, **layer: Any) -> dict[str, Any]:
    x = torch.randn(tokens, HIDDEN, generator=torch.Generator().manual_seed(3)).to(layer["dtype"])
    weights, ids = choice(tokens, per_token)
    whole = forward(layer_of(slice(None), **layer), x, weights, ids)
    share, total = EXPERTS // ranks, torch.zeros(tokens, HIDDEN)
    try:
        for first in range(0, EXPERTS, share):
            part = layer_of(slice(first, first + share), **layer)
            total += forward(part, x, weights, local(ids, first, share))
    except (RuntimeError, IndexError) as error:
        return {"whole": whole, "error": type(error).__name__}
    error = (total - whole.float()).abs().max() / whole.float().abs().max()
    return {"whole": whole, "error": error.item()}


FLOAT, HALF = torch.float32, torch.bfloat16
CASES: dict[str, dict[str, Any]] = {
    "two ranks": {"ranks": 2, "tokens": 9, "per_token": 2, "dtype": FLOAT, "biased": False},
    "four ranks, a token": {"ranks": 4, "tokens": 1, "per_token": 2, "dtype": FLOAT, "biased": False},
    "an expert a rank": {"ranks": 8, "tokens": 3, "per_token": 1, "dtype": FLOAT, "biased": False},
    "one rank": {"ranks": 1, "tokens": 9, "per_token": 2, "dtype": FLOAT, "biased": False},
    "bfloat16": {"ranks": 2, "tokens": 9, "per_token": 4, "dtype": HALF, "biased": False},
    "gelu": {"ranks": 2, "tokens": 9, "per_token": 2, "dtype": FLOAT, "biased": False, "activation": "gelu"},
    "biases": {"ranks": 2, "tokens": 9, "per_token": 2, "dtype": FLOAT, "biased": True},
    "gpt-oss": {
        "ranks": 2, "tokens": 9, "per_token": 2, "dtype": FLOAT, "biased": True, "gemm1_alpha": 1.702,
        "gemm1_clamp_limit": 7.0,
    },
}  # fmt: skip
FORWARDS: dict[str, Forward] = {"loop": loop, "compiled": compiled}


KEYS = [(case, name) for case in CASES for name in FORWARDS if name == "loop" or not CASES[case]["biased"]]
before = {(case, name): of_ranks(FORWARDS[name], **CASES[case]) for case, name in KEYS}
absent_experts.register_hooks(None, facts())
HookRegistry.apply_hooks()
after = {(case, name): of_ranks(FORWARDS[name], **CASES[case]) for case, name in KEYS}
none_here = loop(
    layer_of(slice(4), FLOAT, False), torch.ones(3, HIDDEN), torch.ones(3, 2), torch.full((3, 2), -1)
)
outcomes = {
    ", ".join(key): {
        "before": before[key]["error"],
        "after": after[key]["error"],
        "unchanged": torch.equal(before[key]["whole"], after[key]["whole"]),
    }
    for key in KEYS
}
print(json.dumps({**outcomes, "none": none_here.abs().sum().item()}))
