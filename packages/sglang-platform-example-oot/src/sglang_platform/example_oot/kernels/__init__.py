"""The CPU kernels of the example device, as torch operators.

A vendor changes nothing here; a new operator adds its name.

`from sglang_platform.example_oot.kernels import paged_decode` gives the operator itself; the first name taken from
here registers all operators and, once per machine, builds their C++ implementations. Importing this package does
neither. What each takes is said where its plain torch version is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang_platform.example_oot.kernels.activations import (
        activation,
        gelu_and_mul,
        silu_and_mul,
    )
    from sglang_platform.example_oot.kernels.attention import paged_decode, paged_extend
    from sglang_platform.example_oot.kernels.convolution import short_conv
    from sglang_platform.example_oot.kernels.kv_store import store_kv
    from sglang_platform.example_oot.kernels.library import backend
    from sglang_platform.example_oot.kernels.moe import moe_experts
    from sglang_platform.example_oot.kernels.norm import (
        fused_add_rms_norm,
        layer_norm,
        rms_norm,
    )
    from sglang_platform.example_oot.kernels.product import linear
    from sglang_platform.example_oot.kernels.rotary import rotary_embedding

__all__ = [
    "activation",
    "backend",
    "fused_add_rms_norm",
    "gelu_and_mul",
    "layer_norm",
    "linear",
    "moe_experts",
    "paged_decode",
    "paged_extend",
    "rms_norm",
    "rotary_embedding",
    "short_conv",
    "silu_and_mul",
    "store_kv",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # It imports torch, and this package does not.
    from sglang_platform.example_oot.kernels import library

    value = library.backend if name == "backend" else library.operator(name)
    globals()[name] = value
    return value
