"""Experts kept in MXFP4, a little over a quarter of bfloat16's bytes, and read back for the experts a batch chose."""

from __future__ import annotations

from typing import Any

import torch

from deepseek_v4_plugin.chosen_experts import EXPERT_TENSORS, ChosenExperts, OtherExperts
from deepseek_v4_plugin.mxfp4 import dequantise, quantise
from sglang_platform.core import counter
from sglang_platform.core.registries import QuantMethodWrapper, RegistryError, is_wrapped

__all__ = ["MXFP4Experts"]

_layers = counter("deepseek_v4.mxfp4.layers")
_bytes = counter("deepseek_v4.mxfp4.bytes")
_calls = counter("deepseek_v4.mxfp4.calls")


class MXFP4Experts(QuantMethodWrapper):
    """Per layer `w13_weight` and `w2_weight` hold codes, `<name>_scale` their scales; all uint8, experts first.

    The GEMM is the wrapped method's own, on the values of the chosen experts in the type of the activations.
    """

    _quant_wrapper_id = "v4_mxfp4"

    def __init__(self, inner: Any) -> None:
        if is_wrapped(inner, "v4_expert_split"):
            raise RegistryError(
                "v4_mxfp4 is to go around v4_expert_split",
                why="the split has moved experts away before there is a chance to store them in MXFP4",
                fix="register v4_mxfp4 with the lower priority: the lowest is the innermost",
            )
        super().__init__(inner)

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        self.inner.process_weights_after_loading(layer)
        for name in EXPERT_TENSORS:
            codes, scales = quantise(getattr(layer, name))
            setattr(layer, name, torch.nn.Parameter(codes, requires_grad=False))
            layer.register_buffer(f"{name}_scale", scales, persistent=False)
            _bytes.add(codes.nbytes + scales.nbytes)
        _layers.add()

    def apply(self, layer: Any, dispatch_output: Any) -> Any:
        """`dispatch_output.hidden_states` [T, H]; the answer is the wrapped method's."""
        _calls.add()
        chosen = ChosenExperts(dispatch_output, layer.num_experts)
        dtype = dispatch_output.hidden_states.dtype
        values = {
            name: dequantise(
                getattr(layer, name)[chosen.ids], getattr(layer, f"{name}_scale")[chosen.ids], dtype
            )
            for name in EXPERT_TENSORS
        }
        return self.inner.apply(OtherExperts(layer, values), chosen.dispatched)
