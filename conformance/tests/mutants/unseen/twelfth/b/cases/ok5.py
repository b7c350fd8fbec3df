"""Healthy. Four ops only, registered by their stable names under a key of the platform's own, with sums in another order
(halves, then halves of those; the experts expert by expert), silu by tanh; float16, inputs of more than two dimensions and
settings that they do not know they decline with NotImplemented. All other ops are left to the host.

Permitted: docs/contract.md "Fused ops"; results are rounded once, from float32.
level: kernels
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import FusedOp

KEY = "ok5_device"


def _unserved(x: torch.Tensor) -> bool:
    return x.dim() != 2 or x.dtype not in (torch.float32, torch.bfloat16)


def _sum_by_halves(y: torch.Tensor) -> torch.Tensor:
    while y.shape[-1] > 1:
        half = y.shape[-1] // 2
        front, back, rest = y[..., :half], y[..., half : 2 * half], y[..., 2 * half :]
        y = front + back
        if rest.shape[-1]:
            y = torch.cat([y[..., :-1], y[..., -1:] + rest], dim=-1)
    return y


def rms_norm(op: Any, x: Any, residual: Any = None, post_residual_addition: Any = None, quant_linear: Any = None) -> Any:
    if _unserved(x) or post_residual_addition is not None or quant_linear is not None:
        return NotImplemented
    if op.variance_size_override is not None or op.override_orig_dtype is not None or op.fp32_residual:
        return NotImplemented
    if op.cast_x_before_out_mul:
        return NotImplemented
    y = x.float() if residual is None else residual.float() + x.float()
    out = y / torch.sqrt(_sum_by_halves(y * y) / x.shape[-1] + op.variance_epsilon)
    out = (op.weight.float() * out).to(x.dtype)
    return out if residual is None else (out, y.to(x.dtype))


def silu_and_mul(op: Any, x: torch.Tensor) -> Any:
    if _unserved(x):
        return NotImplemented
    gate, up = (half.float() for half in x.split(x.shape[-1] // 2, dim=-1))
    return (up * (gate * 0.5 * (1 + torch.tanh(gate * 0.5)))).to(x.dtype)


def topk(op: Any, hidden_states: torch.Tensor, router_logits: torch.Tensor, config: Any) -> Any:
    other = config.use_grouped_topk or config.correction_bias is not None or config.custom_routing_function
    if other or config.scoring_func not in (None, "softmax"):
        return NotImplemented
    chosen, ids = router_logits.float().topk(config.top_k, sorted=False)
    over = chosen if config.renormalize else router_logits.float()
    weights = (chosen - torch.logsumexp(over, dim=-1, keepdim=True)).exp()
    return weights.flip(-1).contiguous(), ids.flip(-1).to(torch.int32).contiguous()


def experts(op: Any, layer: Any, x: Any, topk_weights: Any, topk_ids: Any, config: Any) -> Any:
    unknown = (config.gemm1_alpha, config.gemm1_clamp_limit, config.swiglu_limit)
    if _unserved(x) or config.activation != "silu" or not config.is_gated or op.with_bias or config.no_combine:
        return NotImplemented
    if config.apply_router_weight_on_input or any(limit is not None for limit in unknown):
        return NotImplemented
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert in reversed(range(layer.w13_weight.shape[0])):
        tokens, places = (topk_ids == expert).nonzero(as_tuple=True)
        if tokens.numel():
            gate, up = (x[tokens].float() @ layer.w13_weight[expert].float().T).chunk(2, dim=-1)
            y = (torch.nn.functional.silu(gate) * up) @ layer.w2_weight[expert].float().T
            out.index_add_(0, tokens, y * topk_weights[tokens, places, None].float())
    return out.to(x.dtype)


class Platform(ReferencePlatform):
    def get_dispatch_key_name(self) -> str:
        return KEY

    def init_backend(self) -> None:
        FusedOp.register_oot_forward("layernorm.rms_norm", rms_norm, KEY)
        FusedOp.register_oot_forward("activation.silu_and_mul", silu_and_mul, KEY)
        FusedOp.register_oot_forward("moe.topk", topk, KEY)
        FusedOp.register_oot_forward("moe.experts", experts, KEY)
