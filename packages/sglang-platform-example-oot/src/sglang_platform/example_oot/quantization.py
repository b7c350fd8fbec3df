"""Quantised linear layers: 8-bit weights with one scale per output channel, unquantised activations.

A vendor changes: the methods it serves, and `_product`, the kernel.

SGLang hands a layer to the method that its quantisation config chooses. The config and method here derive from the
host's for the same checkpoints (`w8a8_int8`), so they are made in a process of the host.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from sglang_platform.core import counter

__all__ = ["config_class"]

_calls = counter("example_oot.quantized_linear.calls")

# From this many rows on, widening the weights once costs less than reading them as bytes for each row.
_ROWS_TO_WIDEN = 32


@lru_cache(maxsize=1)
def config_class() -> type:
    """The quantisation config for `w8a8_int8`: linear layers by this device's kernel, all else as in the host."""
    from sglang.srt.layers.quantization.w8a8_int8 import (
        W8A8Int8Config,
        W8A8Int8LinearMethod,
    )

    class ExampleOOTInt8LinearMethod(W8A8Int8LinearMethod):  # type: ignore[misc]
        """`y = x W^T` with `weight` int8 [N, K] and `weight_scale` [N, 1]. The activations stay unquantised."""

        def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
            layer.weight = torch.nn.Parameter(layer.weight.data.contiguous(), requires_grad=False)
            scale = layer.weight_scale.data.flatten().contiguous()
            layer.weight_scale = torch.nn.Parameter(scale, requires_grad=False)

        def apply(
            self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None
        ) -> torch.Tensor:
            y = _product(x.reshape(-1, x.shape[-1]), layer.weight, layer.weight_scale)
            y = y.view(*x.shape[:-1], y.shape[-1])
            return y if bias is None else y + bias

    class ExampleOOTInt8Config(W8A8Int8Config):  # type: ignore[misc]
        @classmethod
        def get_supported_act_dtypes(cls) -> list[torch.dtype]:
            return [torch.float32, torch.bfloat16, torch.float16]

        @classmethod
        def get_min_capability(cls) -> int:
            return 0

        def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> Any:
            method = super().get_quant_method(layer, prefix)
            return ExampleOOTInt8LinearMethod(self) if type(method) is W8A8Int8LinearMethod else method

    return ExampleOOTInt8Config


def _product(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """`x` [M, K], `weight` int8 [N, K], `scale` float32 [N] -> [M, N] of x's type."""
    _calls.add()
    n, k = weight.shape
    if x.shape[0] < _ROWS_TO_WIDEN and n % 16 == 0 and k % 16 == 0:
        return torch._weight_int8pack_mm(x.contiguous(), weight, scale.to(x.dtype))
    return torch.nn.functional.linear(x, weight.to(x.dtype)) * scale.to(x.dtype)
