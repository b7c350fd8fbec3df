"""The fields of the installed release's attention layers."""

from __future__ import annotations

import logging
from typing import Any

from sglang_platform.core.attention.layer_fields import CHANGING, FEATURES_OF, WITHOUT_EFFECT
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.versions import installed_version

__all__ = ["later_fields"]

_logger = logging.getLogger(__name__)


def later_fields() -> dict[str, Any]:
    """The fields of SGLang's `RadixAttention` that core's tables lack, with their defaults; a release later than core
    may have some."""
    cls = load("sglang.srt.layers.radix_attention:RadixAttention")
    try:
        layer = cls(num_heads=1, head_dim=1, scaling=1.0, num_kv_heads=1, layer_id=0)
    except TypeError as error:
        _logger.warning(
            "the fields of SGLang %s's RadixAttention are not read: %s", installed_version(), error
        )
        return {}
    known = {"training", *CHANGING, *FEATURES_OF, *WITHOUT_EFFECT}
    return {name: value for name, value in vars(layer).items() if name[0] != "_" and name not in known}
