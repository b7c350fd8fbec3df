"""Allocators, attention backends and graph runners, re-based on SGLang's classes. Pools: `pools.py`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.sglang.attention.layer_fields import later_fields
from sglang_platform.core.sglang.attention.pools import no_indexer, what_the_pool_is
from sglang_platform.core.sglang.graphs.decode import HostDecodeBatches, host_calls
from sglang_platform.core.sglang.host_classes import check_part, load
from sglang_platform.core.sglang.pools.rebased import rebase_pool
from sglang_platform.core.sglang.rebase import host_first, rebase
from sglang_platform.core.sglang.versions import facts

__all__ = [
    "rebase_allocator",
    "rebase_attention_backend",
    "rebase_full_graph_backend",
    "rebase_graph_runner",
    "rebase_pool",
]

_PAGED = "sglang_platform.core.memory.paged:PagedTokenToKVPoolAllocator"
_ATTENTION = "sglang_platform.core.attention.backend:AttentionBackend"
_GRAPH_RUNNER = "sglang_platform.core.graph.runner:GraphRunner"
_FULL_GRAPHS = "sglang_platform.core.graph.full:FullGraphBackend"


def rebase_allocator(cls: Any, origin: PluginOrigin | None) -> type:
    """A paged allocator class of core's contract, re-based on SGLang's.

    Core's implementation owns the state, so it serves every name it defines. SGLang's class adds the remaining
    scheduler-facing methods (prefill budgets, segment frees), which use those names.
    """
    core_base, host_base = load(_PAGED), load(facts().paged_allocator)
    check_part(cls, (core_base, host_base), "get_paged_allocator_cls()", origin)
    return rebase(cls, core_base, host_base)


def allocator_of_last_resort() -> type:
    """Core's paged allocator, for SGLang releases that accept no None and whose own allocator needs Triton."""
    return rebase_allocator(load(_PAGED), None)


def rebase_attention_backend(cls: Any, origin: PluginOrigin | None) -> type:
    """An attention backend class of core's contract, re-based on SGLang's, whose defaults fill in missing methods."""
    core_base = load(_ATTENTION)
    host_base = load("sglang.srt.layers.attention.base_attn_backend:AttentionBackend")
    check_part(cls, (core_base, host_base), "get_attention_backends()", origin)
    bridge = host_first(core_base, host_base)
    # SGLang has no default for these; core's suits every backend that reads only static inputs.
    bridge.pop("get_cuda_graph_seq_len_fill_value", None)
    bridge.pop("support_triton", None)
    # SGLang's passes draft tokens to `forward_extend` without their tree mask.
    bridge.pop("forward", None)
    bridge.update(what_the_pool_is())
    bridge["_later_fields"] = later_fields()
    bridge.setdefault("get_indexer_metadata", no_indexer)
    outer = None
    if not facts().metadata_halves:
        bridge.pop("init_forward_metadata", None)  # SGLang's only raises; core's calls the two halves
        outer = _MetadataInOnePiece
    return rebase(cls, core_base, host_base, bridge=bridge, outer=outer)


class _MetadataInOnePiece:
    """For SGLang releases whose graph runner passes the tensors of a batch one by one."""

    def init_forward_metadata_capture_cuda_graph(
        self,
        bs: int,
        num_tokens: int,
        req_pool_indices: Any,
        seq_lens: Any,
        encoder_lens: Any,
        forward_mode: Any,
        spec_info: Any,
    ) -> None:
        self._prepare(bs, req_pool_indices, seq_lens, encoder_lens, forward_mode, spec_info, in_capture=True)

    def init_forward_metadata_replay_cuda_graph(
        self,
        bs: int,
        req_pool_indices: Any,
        seq_lens: Any,
        seq_lens_sum: int,
        encoder_lens: Any,
        forward_mode: Any,
        spec_info: Any,
        seq_lens_cpu: Any,
    ) -> None:
        self._prepare(bs, req_pool_indices, seq_lens, encoder_lens, forward_mode, spec_info, in_capture=False)

    def _prepare(
        self,
        bs: int,
        rows: Any,
        seq_lens: Any,
        encoder_lens: Any,
        mode: Any,
        spec_info: Any,
        *,
        in_capture: bool,
    ) -> None:
        backend: Any = self
        batch = SimpleNamespace(
            batch_size=bs,
            req_pool_indices=rows[:bs],
            seq_lens=seq_lens[:bs],
            encoder_lens=encoder_lens,
            forward_mode=mode,
            spec_info=spec_info,
        )
        backend.init_forward_metadata_out_graph(batch, in_capture=in_capture)
        backend.init_forward_metadata_in_graph(batch)


def rebase_graph_runner(cls: Any, origin: PluginOrigin | None) -> type:
    """A decode graph runner class of core's contract that builds, runs and slices SGLang's batches."""
    core_base = load(_GRAPH_RUNNER)
    if isinstance(cls, type) and not issubclass(cls, core_base):
        return cls  # written directly for SGLang, which requires no base class for graph runners
    check_part(cls, (core_base,), "get_graph_runner_cls()", origin)
    bridge = host_first(core_base, HostDecodeBatches)
    return rebase(cls, core_base, HostDecodeBatches, bridge=bridge, outer=host_calls(*facts().graph_calls))


def rebase_full_graph_backend(cls: Any, origin: PluginOrigin | None) -> type:
    """A backend class of core's contract for the graph runners that SGLang builds itself."""
    core_base = load(_FULL_GRAPHS)
    host_base = load("sglang.srt.model_executor.runner_backend.base_cuda_graph_backend:BaseCudaGraphBackend")
    check_part(cls, (core_base, host_base), "get_full_graph_backend_cls()", origin)
    return rebase(cls, core_base, host_base)
