"""Pools, allocators, attention backends and graph runners, re-based on SGLang's classes.

The names and the order of calls are those of SGLang 0.5.23 (`mem_cache/memory_pool.py`, `mem_cache/allocator/`,
`layers/attention/base_attn_backend.py`, `model_executor/cpu_graph_runner.py`).
"""

from __future__ import annotations

import importlib
from typing import Any

from sglang_platform.core.errors import HostError, PluginOrigin
from sglang_platform.core.hosts.sglang.rebase import host_first, rebase

__all__ = ["rebase_allocator", "rebase_attention_backend", "rebase_graph_runner", "rebase_pool"]

_POOLS = {
    "mha": ("sglang_platform.core.memory.mha", "MHATokenToKVPool"),
    "mla": ("sglang_platform.core.memory.mla", "MLATokenToKVPool"),
    "dsa": ("sglang_platform.core.memory.dsa", "DSATokenToKVPool"),
}


def rebase_pool(cls: Any, kind: str, origin: PluginOrigin | None) -> type:
    """A KV pool class of ours on the host's pool of that kind, constructed with exactly the host's keywords."""
    module, name = _POOLS[kind]
    core_base = _load(module, name)
    host_base = _load("sglang.srt.mem_cache.memory_pool", name)
    _check(cls, (core_base, host_base), f"get_kv_pool_cls(kind={kind!r})", origin)
    return rebase(cls, core_base, host_base, bridge=host_first(core_base, host_base), outer=_PoolCompletion)


class _PoolCompletion:
    """Lets `_create_buffers` of a vendor set `k_buffer` and `v_buffer` (MLA: `kv_buffer`) and nothing else."""

    def _create_buffers(self) -> None:
        for scale in ("k_scale", "v_scale", "native_k_scale", "native_v_scale", "dq_k", "dq_v"):
            setattr(self, f"{scale}_buffer", None)
        super()._create_buffers()  # type: ignore[misc]
        if not hasattr(self, "_kv_buffer_descs") and hasattr(self, "_build_kv_buffer_descs"):
            self._kv_buffer_descs = self._build_kv_buffer_descs()
            self._init_data_ptrs_and_strides()  # type: ignore[attr-defined]


def rebase_allocator(cls: Any, origin: PluginOrigin | None) -> type:
    """A paged allocator class of ours on the host's.

    Core's implementation keeps the state, so core serves every name it defines; the host's class supplies the
    scheduler-facing rest (prefill budgets, segment frees), which is written against those names.
    """
    core_base = _load("sglang_platform.core.memory.paged", "PagedTokenToKVPoolAllocator")
    host_base = _load("sglang.srt.mem_cache.allocator.paged", "PagedTokenToKVPoolAllocator")
    _check(cls, (core_base, host_base), "get_paged_allocator_cls()", origin)
    return rebase(cls, core_base, host_base)


def rebase_attention_backend(cls: Any, origin: PluginOrigin | None) -> type:
    """An attention backend class of ours on the host's base class, whose defaults serve what is left out."""
    core_base = _load("sglang_platform.core.attention.backend", "AttentionBackend")
    host_base = _load("sglang.srt.layers.attention.base_attn_backend", "AttentionBackend")
    _check(cls, (core_base, host_base), "get_attention_backends()", origin)
    bridge = host_first(core_base, host_base)
    # The host leaves these two to each backend; core's answer serves every backend that reads only static inputs.
    bridge.pop("get_cuda_graph_seq_len_fill_value", None)
    bridge.pop("support_triton", None)
    return rebase(cls, core_base, host_base, bridge=bridge)


def rebase_graph_runner(cls: Any, origin: PluginOrigin | None) -> type:
    """A decode graph runner class of ours that builds, runs and slices the host's own batches."""
    core_base = _load("sglang_platform.core.graph.runner", "GraphRunner")
    if isinstance(cls, type) and not issubclass(cls, core_base):
        return cls  # written directly for the host, which asks for no base class of a graph runner
    _check(cls, (core_base,), "get_graph_runner_cls()", origin)
    from sglang_platform.core.hosts.sglang.graph import HostDecodeBatches

    return rebase(cls, core_base, HostDecodeBatches, bridge=host_first(core_base, HostDecodeBatches))


def _load(module: str, name: str) -> type:
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def _check(cls: Any, accepted: tuple[type, ...], factory: str, origin: PluginOrigin | None) -> None:
    if isinstance(cls, type) and issubclass(cls, accepted):
        return
    names = " or ".join(f"{base.__module__}.{base.__name__}" for base in accepted)
    raise HostError(
        f"{factory} answered {cls!r}, which SGLang cannot use",
        plugin=origin,
        why=f"a class is needed that derives from {names}",
        fix="return such a class, None for the host's own, or raise NotImplementedError with a reason",
    )
