"""Experts with int8 weights: half the bytes of bfloat16, one scale per output row (symmetric, round to nearest)."""

from __future__ import annotations

from typing import Any

import torch

from sglang_platform.core import counter
from sglang_platform.core.registries import QuantMethodWrapper

_quantised = counter("registries_plugin.int8_experts.layers")
_calls = counter("registries_plugin.int8_experts.calls")


class Int8Experts(QuantMethodWrapper):
    """SwiGLU experts, weights [E, rows, columns] int8 with scales [E, rows, 1] float32."""

    _quant_wrapper_id = "int8_experts"

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Replaces the loaded weights. `layer.w13_weight` [E, 2 I, H] (gate, then up), `w2_weight` [E, H, I]."""
        self.inner.process_weights_after_loading(layer)
        for name in ("w13_weight", "w2_weight"):
            weight = getattr(layer, name).detach().float()
            scale = weight.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / 127
            rows = torch.nn.Parameter((weight / scale).round().to(torch.int8), requires_grad=False)
            setattr(layer, name, rows)
            layer.register_buffer(f"{name}_scale", scale, persistent=False)
        _quantised.add()

    def apply(self, layer: Any, dispatch_output: Any) -> Any:
        """`dispatch_output.hidden_states` [T, H]; the answer is the host's combine input with [T, H]."""
        from sglang.srt.layers.moe.token_dispatcher import StandardCombineInput

        _calls.add()
        x = dispatch_output.hidden_states
        topk_weights, topk_ids = dispatch_output.topk_output[:2]
        out = torch.zeros_like(x, dtype=torch.float32)
        for expert in topk_ids.unique().tolist():
            token, choice = (topk_ids == expert).nonzero(as_tuple=True)
            gate, up = _rows(layer, "w13_weight", expert, x[token].float()).chunk(2, dim=-1)
            hidden = _rows(layer, "w2_weight", expert, torch.nn.functional.silu(gate) * up)
            out.index_add_(0, token, hidden * topk_weights[token, choice, None])
        return StandardCombineInput(hidden_states=out.to(x.dtype))


def _rows(layer: Any, name: str, expert: int, x: torch.Tensor) -> torch.Tensor:
    """x [n, columns] times the expert's int8 weight: the scale of a row comes out of its sum."""
    weight, scale = getattr(layer, name)[expert], getattr(layer, f"{name}_scale")[expert]
    return (x @ weight.float().T) * scale.T
