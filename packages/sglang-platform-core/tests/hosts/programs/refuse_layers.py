"""Prints, for each constant of SGLang's attention layers, whether a model with it is refused on core's attention."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.radix_attention import RadixAttention

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.portable.torch.attention import TorchAttentionBackend
from sglang_platform.core.sglang.attention.layers import check_layers


class Derived(TorchAttentionBackend):
    """A vendor's backend on core's."""


platform = SimpleNamespace(
    device_name="acme",
    get_attention_backends=lambda: {"core": TorchAttentionBackend, "own": Derived, "another": object},
)


def said(backend: str, **constants: Any) -> str:
    model = torch.nn.Module()
    model.attn = RadixAttention(4, 8, 1.0, 4, 0, sliding_window_size=constants.pop("sliding_window_size", -1))
    for name, value in constants.items():
        assert hasattr(model.attn, name), name
        setattr(model.attn, name, value)
    try:
        check_layers(platform, backend, model)
    except LaunchRefused as refused:
        return str(refused)
    return ""


CONSTANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "window": {"sliding_window_size": 64},
    "cap": {"logit_cap": 30.0},
    "cross-attention": {"is_cross_attention": True},
    "chunks": {"use_irope": True},
    "temperature": {"xai_temperature_len": 1024},
    "positions": {"pos_encoding_mode": "ALIBI"},
    "another cap": {"logit_cap": 30.0, "logit_capping_method": "sigmoid"},
}
print(
    json.dumps(
        {
            f"{backend}: {name}": said(backend, **constants)
            for backend in ("core", "own", "another", "torch_native")
            for name, constants in CONSTANTS.items()
        }
    )
)
