"""The indexer's keys of a re-based DSA pool: created by the vendor or core, not by SGLang's class."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["index_keys_by_core"]


def index_keys_by_core(core_base: type) -> dict[str, Any]:
    """Bridge entries that create the keys through `_create_index_key_cache`, whatever the host's class does."""
    return {
        "_create_index_key_cache": vars(core_base)["_create_index_key_cache"],
        "index_k_with_scale_buffer": property(_buffer, _drop),
        **{name: functools.cached_property(value) for name, value in _ATTRIBUTES.items()},
    }


def _buffer(pool: Any) -> Any:
    """Created on first access: by then the host's constructor has set the sizes."""
    if "index_key_cache" not in pool.__dict__:
        if not pool.__dict__.get("skip_topk_layers"):
            pool.skip_topk_layers = _ATTRIBUTES["skip_topk_layers"](pool)
        pool.index_key_cache = pool._create_index_key_cache()
    return pool.index_key_cache.buffer


def _drop(pool: Any, buffers: Any) -> None:
    """Drop the buffers that a release allocates and assigns itself, without calling `_create_index_key_cache`."""
    _buffer(pool)


def _torch_device(pool: Any) -> Any:
    import torch

    return torch.device(pool.device)


# Defaults for the attributes that core's key cache reads, if the host has not set them by then.
_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "_torch_device": _torch_device,
    "index_buf_size": lambda pool: pool.size,
    "index_page_size": lambda pool: pool.page_size,
    "skip_topk_layers": lambda pool: [False] * pool.layer_num,
}
