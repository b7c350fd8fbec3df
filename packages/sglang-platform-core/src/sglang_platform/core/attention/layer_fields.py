"""The fields of SGLang's `RadixAttention`: which change a result, and which of them a backend must refuse."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from sglang_platform.core.errors import PlatformError

__all__ = ["CHANGING", "FEATURES_OF", "WITHOUT_EFFECT", "asked_fields", "refuse_fields"]

WITHOUT_EFFECT = frozenset(
    {
        *(
            "tp_q_head_num",
            "tp_k_head_num",
            "tp_v_head_num",
            "head_dim",
            "qk_head_dim",
            "v_head_dim",
            "layer_id",
        ),
        *("scaling", "quant_method", "use_prefill_attention_wrapper"),
        *("q_scale_float", "idx_q_scale_float", "idx_k_scale_float", "idx_v_scale_float"),
    }
)
"""Shapes and identity, what every backend computes with, what SGLang itself reads, and scales by which its sparse
backends quantise what others compute unquantised."""

FEATURES_OF: Mapping[str, str] = {
    "logit_cap": "logit_cap",
    "sliding_window_size": "sliding_window",
    "attn_type": "encoder",
    "k_scale": "fp8_kv",
    "v_scale": "fp8_kv",
    "k_scale_float": "fp8_kv",
    "v_scale_float": "fp8_kv",
}
"""Fields with a word of `SRTPlatform.attention_features`: a platform declares or refuses these."""

CHANGING: Mapping[str, Any] = {
    "is_cross_attention": False,
    "use_irope": False,
    "pos_encoding_mode": "NONE",
    "xai_temperature_len": -1,
    "logit_capping_method": "tanh",
}
"""Fields without a word, with the value that asks for nothing."""


def asked_fields(layer: Any, computed: Set[str], later: Mapping[str, Any]) -> list[str]:
    """What `layer` asks for and `computed` lacks, as "field=value". `later`: fields that the installed SGLang has and
    this table lacks, with their defaults."""
    return [
        f"{name}={getattr(layer, name)}"
        for name, default in (*CHANGING.items(), *later.items())
        if name not in computed and _asks(layer, name, default)
    ]


def refuse_fields(backend: Any, layer: Any, computed: Set[str], later: Mapping[str, Any]) -> None:
    """Raises PlatformError if `layer` asks for what is not in `computed`, as `asked_fields` tells it."""
    asked = asked_fields(layer, computed, later)
    if asked:
        raise PlatformError(
            f"{type(backend).__name__} does not serve what this model asks of attention: {', '.join(asked)}",
            why="its numbers would be others without",
            fix="choose another --attention-backend; one that computes it lists the field in layer_fields",
        )


def _asks(layer: Any, name: str, default: Any) -> bool:
    value = getattr(layer, name, default)
    same = value == default
    if value is None or (isinstance(same, bool) and same):  # a tensor is compared by element
        return False
    if name == "logit_capping_method":
        return bool(layer.logit_cap)
    return name != "xai_temperature_len" or value > 0
