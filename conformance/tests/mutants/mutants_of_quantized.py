"""Level 4 mutants in SGLang: linear layers of 8-bit weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mutant import mutant

from sglang_platform.core.registries import QuantMethodWrapper, register_quant_wrapper
from sglang_platform.example_oot import quantization as layers
from sglang_platform.example_oot.platform import ExampleOOTPlatform

_CHECK = "kernels.quantized_layers_follow_their_weights"
_Product = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class _Multiplies(ExampleOOTPlatform):
    """The example with another product."""

    _product: _Product

    def get_quantization_config(self, quantization: str) -> type | None:
        layers._product = type(self)._product
        return super().get_quantization_config(quantization)


_WIDENED: dict[Any, torch.Tensor] = {}


def _by_address(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    place = weight.data_ptr(), weight.shape, x.dtype
    if place not in _WIDENED:
        _WIDENED[place] = weight.to(x.dtype) * scale[:, None].to(x.dtype)
    return torch.nn.functional.linear(x, _WIDENED[place])


@mutant(
    check=_CHECK,
    defect="widened weights are kept by their address and shape, and serve when the weights have changed",
    says="changed in place",
    host="sglang",
)
class WidenedWeightsAreKept(_Multiplies):
    _product = staticmethod(_by_address)


def _one_scale(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, weight.to(x.dtype)) * scale[0].to(x.dtype)


@mutant(
    check=_CHECK,
    defect="the scale of the first output serves all of them",
    says="w8a8_int8: a layer gives",
    host="sglang",
)
class OneScaleForAllOutputs(_Multiplies):
    _product = staticmethod(_one_scale)


class _WithoutTheBias(QuantMethodWrapper):
    _quant_wrapper_id = "mutant.without-the-bias"

    def apply(self, layer: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return self.inner.apply(layer, x)  # type: ignore[no-any-return]


@mutant(
    check=_CHECK,
    defect="a wrapper around the method of linear layers leaves the bias out",
    says="no quantisation: a layer gives",
    host="sglang",
)
class WrapperLeavesTheBiasOut(ExampleOOTPlatform):
    def init_backend(self) -> None:
        super().init_backend()
        register_quant_wrapper(
            _WithoutTheBias._quant_wrapper_id,
            lambda layer, arguments: True if hasattr(layer, "skip_bias_add") else None,
            lambda layer, inner, context: _WithoutTheBias(inner),
        )
