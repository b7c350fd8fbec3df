"""The pool queries of core's attention backends, answered for SGLang's pool classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from sglang_platform.core.attention.backend import LatentRows
from sglang_platform.core.errors import HostError
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.pools.kinds import host_pool
from sglang_platform.core.sglang.versions import facts

__all__ = ["no_indexer", "what_the_pool_is"]

# The classes have these names in every release from 0.5.11 to 0.5.23, and keep the layers of full attention in
# `full_kv_pool`.
_WINDOWS = "sglang.srt.mem_cache.swa_memory_pool:SWAKVPool"
_STATES = "sglang.srt.mem_cache.memory_pool:HybridLinearKVPool"


def what_the_pool_is() -> dict[str, Any]:
    """Bridge entries that override the pool queries of core's attention backend for SGLang's pools."""
    return {
        "_window_layers": _window_layers,
        "_latent_rows": _latent_rows,
        "write_location": _write_location,
        "shared_read_ends": _shared_read_ends,
    }


def _window_layers(backend: Any) -> Mapping[int, tuple[int, bool]] | None:
    pool = backend.token_to_kv_pool
    return pool.layers_mapping if isinstance(pool, load(_WINDOWS)) else None


def _latent_rows(backend: Any) -> LatentRows | None:
    pool = backend.token_to_kv_pool
    if isinstance(pool, (load(_WINDOWS), load(_STATES))):
        pool = pool.full_kv_pool
    return (
        LatentRows(pool, getattr(pool, facts().dsa_fp8_flag)) if isinstance(pool, host_pool("mla")) else None
    )


def _write_location(backend: Any, layer: Any, forward_batch: Any) -> Any:
    slots, both = forward_batch.out_cache_loc, facts().write_location
    slot_map = backend.slot_map(layer, forward_batch)
    return slots if slot_map is None or both is None else load(both)(slots, slot_map[slots])


def _shared_read_ends(backend: Any, mode: Any) -> Any:
    """How long a step reads the host's shared tables; SGLang asks since 0.5.18. The kernels look slots up in these
    tables until the step is done, while SGLang's default assumes a copy at its start."""
    ends = load("sglang.srt.layers.attention.base_attn_backend:SharedReadEnds")
    return ends.POST_REPLAY if mode.is_decode() or mode.is_target_verify() else ends.UNKNOWN


def no_indexer(backend: Any, layer_id: int, forward_batch: Any) -> NoReturn:
    """Raise HostError when SGLang's indexer asks for its metadata: without it, the indexer would go on and attend to
    all tokens."""
    raise HostError(
        f"{type(backend).__name__} cannot serve a model that selects the tokens it attends to (DSA)",
        why="SGLang's indexer selects them with metadata of SGLang's own backends (get_indexer_metadata)",
        fix="leave out --attention-backend: SGLang chooses one that has it",
    )
