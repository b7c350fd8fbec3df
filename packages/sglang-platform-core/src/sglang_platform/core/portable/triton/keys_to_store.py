"""Where a host wants rotated keys, and values, to be stored (`fused_set_kv_buffer_arg` of the rotary op)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["keys_to_store"]

# The argument names of the packages' `rotate_and_store`: value, caches and slots, which every host passes. `_SCALES`
# are optional.
_NEEDED = ("value", "k_out", "v_out", "loc")
_ATTRIBUTES = dict(zip(("value", "k_buffer", "v_buffer", "cache_loc"), _NEEDED, strict=True))
_ENTRIES = dict(zip(("v", "key_cache", "value_cache", "slot_mapping"), _NEEDED, strict=True))
_SCALES = {"k_scale": "k_scale", "v_scale": "v_scale"}


def keys_to_store(asked: Any, key: torch.Tensor) -> dict[str, Any] | None:
    """The arguments of `rotate_and_store` for what a host wants stored with `key` [T, Hk * D]. None if the kernels do
    not support it: a layout other than one row per slot, fewer slots than tokens, scales without a cast, an unknown
    argument.

    Hosts pass an object with attributes (caches [slots, H * D]) or a dict (caches [pages, page, H, D]), whose
    `swa_slot_mapping` maps each slot to its row in the pool for sliding windows.
    """
    if isinstance(asked, Mapping):
        needed, known = _ENTRIES, {**_ENTRIES, **_SCALES, "swa_slot_mapping": "slots"}
    else:
        needed, known = _ATTRIBUTES, {**_ATTRIBUTES, **_SCALES}
        asked = getattr(asked, "__dict__", {})
    if not needed.keys() <= asked.keys() <= known.keys():
        return None
    words = {known[word]: said for word, said in asked.items()}
    for name in ("value", "k_out", "v_out"):
        words[name] = _flat(words[name])
    value, k_out, v_out = words["value"], words["k_out"], words["v_out"]
    if value is None or k_out is None or v_out is None:
        return None
    served = (
        k_out.dtype == v_out.dtype
        and k_out.is_floating_point()
        and value.dtype == key.dtype
        and k_out.shape[1] == key.shape[1]
        and v_out.shape[1] == value.shape[1]
        and value.shape[0] == words["loc"].numel() == key.shape[0]
        and (words.get("k_scale") is words.get("v_scale") is None or k_out.dtype != key.dtype)
    )
    return words if served else None


def _flat(rows: torch.Tensor) -> torch.Tensor | None:
    """[rows, columns] without a copy, of [rows, heads, D] or [pages, page, heads, D]; None for other strides."""
    if rows.dim() == 4 and (rows.shape[1] == 1 or rows.stride(0) == rows.shape[1] * rows.stride(1)):
        rows = rows.squeeze(1) if rows.shape[1] == 1 else rows.view(-1, *rows.shape[2:])
    if rows.dim() == 3 and (rows.shape[1] == 1 or rows.stride(1) == rows.shape[2]) and rows.stride(2) == 1:
        rows = rows.reshape(rows.shape[0], -1)
    return rows if rows.dim() == 2 and rows.stride(1) == 1 else None
