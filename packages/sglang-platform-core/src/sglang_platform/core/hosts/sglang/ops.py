"""Forwards registered for core's fused ops, carried to SGLang's op classes (0.5.23: `sglang.kernels.fused_op`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sglang_platform.core.ops.fused_op import FusedOp

__all__ = ["register_fused_ops"]

Forward = Callable[..., Any]


def register_fused_ops(dispatch_key: str) -> list[str]:
    """Register every forward of this key with the host; returns the names of the ops carried over."""
    from sglang.kernels.fused_op import BaseFusedOp

    carried = []
    for entry in FusedOp.registered(dispatch_key):
        where, adapt = _HOST_OPS[entry.op_cls.op]
        module, name = where.split(":")
        host_op = getattr(importlib.import_module(module), name)
        BaseFusedOp.register_oot_forward(host_op, adapt(entry.forward), dispatch_key)
        carried.append(entry.op_cls.op)
    return carried


def _as_is(forward: Forward) -> Forward:
    return forward


def _moe_experts(forward: Forward) -> Forward:
    def host_forward(self: Any, layer: Any, dispatch_output: Any) -> Any:
        from sglang.srt.layers.moe.token_dispatcher import StandardCombineInput

        topk_weights, topk_ids, _ = dispatch_output.topk_output
        hidden = forward(
            self, layer, dispatch_output.hidden_states, topk_weights, topk_ids, self.moe_runner_config
        )
        if hidden is NotImplemented:
            return self.forward_native(layer, dispatch_output)
        return StandardCombineInput(hidden_states=hidden)

    return host_forward


_HOST_OPS: dict[str, tuple[str, Callable[[Forward], Forward]]] = {
    "layernorm.rms_norm": ("sglang.srt.layers.layernorm:RMSNorm", _as_is),
    "activation.silu_and_mul": ("sglang.srt.layers.activation:SiluAndMul", _as_is),
    "rotary.rotary_embedding": ("sglang.srt.layers.rotary_embedding.base:RotaryEmbedding", _as_is),
    "moe.experts": ("sglang.srt.layers.quantization.unquant:UnquantizedFusedMoEMethod", _moe_experts),
}
