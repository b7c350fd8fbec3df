"""The predicate of a quantisation wrapper answers False for layers that it does not want. Only None leaves a layer alone, so
every layer is wrapped, attention's projections as well, and computes in 8 bits.

For the user: the plugin's switch for 8-bit experts makes the whole model 8-bit.
Follows: docs/registries.md and core.registries.quant: "answers a context for the factory, or None to leave the layer alone".
A distribution with the same as a general plugin is in dists/b24.
level: host
"""

from typing import Any

import torch

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.registries.quant import QuantMethodWrapper, register_quant_wrapper


class EightBits(QuantMethodWrapper):
    _quant_wrapper_id = "b24_int8_experts"

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


class Platform(ReferencePlatform):
    def init_backend(self) -> None:
        super().init_backend()
        register_quant_wrapper("b24_int8_experts", wanted, wrapped)
