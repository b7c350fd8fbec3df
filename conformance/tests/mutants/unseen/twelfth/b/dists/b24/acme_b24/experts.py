"""Experts in 8 bits."""

from typing import Any

import torch

from sglang_platform.core.registries.quant import QuantMethodWrapper


class EightBits(QuantMethodWrapper):
    _quant_wrapper_id = "acme_int8_experts"

    def apply(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        y = self.inner.apply(layer, *args, **kwargs)
        if not isinstance(y, torch.Tensor):
            return y
        scale = y.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
        return ((y / scale).round() * scale).to(y.dtype)


def wanted(layer: Any, server_args: Any) -> Any:
    return type(layer).__name__ == "FusedMoE"


def wrapped(layer: Any, method: Any, context: Any) -> Any:
    return EightBits(method)
