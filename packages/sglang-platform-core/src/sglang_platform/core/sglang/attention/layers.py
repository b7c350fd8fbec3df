"""Refuses a model whose layers ask core's attention for what it does not compute, as soon as the model is built."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.attention.backend import AttentionBackend
from sglang_platform.core.attention.layer_fields import asked_fields
from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.attention.layer_fields import later_fields
from sglang_platform.core.sglang.host_classes import MODEL_RUNNER, load
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.served_model import resolved

__all__ = ["check_layers", "register_hooks"]


def register_hooks(platform: Any) -> None:
    def check(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
        check_layers(platform, resolved(runner.server_args).attention_backend, runner.model)

    soft(
        f"{MODEL_RUNNER}.load_model", check, HookType.AFTER,
        without="a model that the attention backend does not serve is refused at its first step only",
    )  # fmt: skip


def check_layers(platform: Any, backend: str, model: Any) -> None:
    """Raise LaunchRefused for the first layer of `model` with a field that the backend of that name does not compute.
    Asked of backends that derive from core's base class."""
    cls = platform.get_attention_backends().get(backend)
    if not (isinstance(cls, type) and issubclass(cls, AttentionBackend)):
        return
    later = later_fields()
    layer_class = load("sglang.srt.layers.radix_attention:RadixAttention")
    for name, layer in model.named_modules():
        asked = asked_fields(layer, cls.layer_fields, later) if isinstance(layer, layer_class) else []
        if asked:
            raise LaunchRefused(
                f"{type(model).__name__} is not served by the attention backend {backend!r} of the platform "
                f"{platform.device_name!r}",
                plugin=getattr(platform, "_plugin_origin", None),
                why=f"its layer {name} asks for {', '.join(asked)}",
                fix="serve another model, or choose another --attention-backend",
            )
