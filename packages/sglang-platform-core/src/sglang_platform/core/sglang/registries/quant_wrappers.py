"""Applies the registry's quant wrappers to the quantisation method of SGLang's layers."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import quant
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

# The constructors that set a layer's `quant_method`; the same in every release from 0.5.11 to 0.5.23.
_LAYERS = (
    "sglang.srt.layers.moe.fused_moe_triton.layer:FusedMoE.__init__",
    "sglang.srt.layers.linear:LinearBase.__init__",
)


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Hook the layers when the first wrapper is registered."""
    quant.wrappers.when_first_added(_hook_layers)


def _hook_layers() -> None:
    for target in _LAYERS:
        required(target, _wrap_method, HookType.AFTER, without="registered quant wrappers wrap nothing")


def _wrap_method(result: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
    method = getattr(layer, "quant_method", None)
    if method is not None:
        wrapped = quant.wrap(layer, method, served_model().server_args)
        if wrapped is not method:  # assignment registers a submodule, so assign only if it changed
            layer.quant_method = wrapped
