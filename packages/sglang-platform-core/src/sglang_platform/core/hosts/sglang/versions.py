"""What differs between the releases of SGLang, in one table; all other modules of the adapter ask `facts()`.

Read from the wheels of every release from 0.5.11 to 0.5.23. A row holds what a release changed; a release without a
row is like the one before it, and a release newer than the table is tried with its last row, with a warning.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["NEWEST", "OLDEST", "HostFacts", "facts", "facts_for", "known_releases"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostFacts:
    """The shape of one release. A target is where a hook goes, `pkg.mod:Class.attr`."""

    version: str = ""

    # Memory
    dsa_pool: str = "DSATokenToKVPool"
    """The host's class of DSA pools in `sglang.srt.mem_cache.memory_pool`."""
    paged_allocator: str = "sglang.srt.mem_cache.allocator.paged:PagedTokenToKVPoolAllocator"
    token_allocator: str = "sglang.srt.mem_cache.allocator.token:TokenToKVPoolAllocator"
    pool_points: frozenset[str] = frozenset()
    """The overridable points of a KV pool that the host's own `set_kv_buffer` and `move_kv_cache` go through."""
    takes_none_for_parts: bool = False
    """Whether None from a pool or allocator factory means the host's own class."""
    pools_built_by: str = "sglang.srt.mem_cache.kv_cache_configurator"
    """The module that builds pools and allocators; its names decide what an in-tree platform gets."""
    stray_pool_keywords: frozenset[str] = frozenset()
    """Keywords that the host hands a platform's MLA pool though its own class takes none of that name."""

    # Graphs and attention
    graph_calls: tuple[str, str] = ("can_run_graph", "execute")
    """The methods of a decode graph runner that the host calls: the question and the replay."""
    eager_runner: str | None = "sglang.srt.model_executor.runner.eager_runner:EagerRunner"
    graph_sizes: str = "get_exec().graph.cuda_graph_config.decode.bs"
    """Where the batch sizes to capture are kept."""
    batch_holds_pools: bool = False
    """Whether a `ForwardBatch` carries the pools and the attention backend itself."""
    forward_context: bool = True
    """Whether a forward runs inside `forward_context(...)`."""
    context_takes_batch: bool = False
    """Whether `forward_context` wants the batch as well."""
    translates_slots: bool = False
    """Whether a static batch must be bound to the runner's slot translator."""
    metadata_halves: bool = True
    """Whether attention metadata is prepared in an outer and an inner half of a graph."""
    compile_phase: str = "sglang.srt.compilation.compile_phase:is_in_torch_compile_warmup"
    """The function that says whether prefill is only being compiled; beside it is the stream of the capture."""
    op_class: str = "sglang.kernels.fused_op:BaseFusedOp"

    # Server arguments
    finished_arguments: str = "sglang.srt.arg_groups.pipeline:run_resolution_pipeline"
    """The function that has filled in every server argument when it returns."""
    keeps_raw_arguments: bool = True
    """Whether the operator's own values stay readable beside the resolved ones."""

    # What the host asks a platform for; where it does not, a hook of ours carries the answer in, or it is reported.
    imports_everywhere: frozenset[str] = frozenset()
    """Modules of other distributions that the host imports whatever the device, without a check."""
    builds_rotary_off_device: bool = True
    """Whether rotary embeddings can be built on an out-of-tree platform without vLLM installed."""
    capabilities_struct: bool = False
    asks_device: bool = False
    """Whether an out-of-tree device type is known to the host, and its default device asked for."""
    asks_triton: bool = False
    asks_quantization_config: bool = False
    asks_distributed_backend: bool = False
    asks_pin_memory: bool = False
    asks_speculative_algorithm: bool = False
    asks_full_graph_backend: bool = False
    asks_post_load_model: bool = False
    asks_mamba_extra_buffer: bool = False
    asks_speculative_worker: bool = False
    asks_piecewise_backend: bool = True
    """Whether prefill can be asked for in compiled pieces (`tc_piecewise`)."""
    pieces_argument: str = "cuda_graph_config"
    """The server argument that says whether prefill is served in pieces."""
    asks_group_device: bool = False

    # Processes
    loads_plugins_in: frozenset[str] = frozenset({"launcher", "scheduler"})


_FOLDER = "sglang.srt.mem_cache"

# fmt: off
_CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0.5.11", {
        "dsa_pool": "NSATokenToKVPool",
        "paged_allocator": f"{_FOLDER}.allocator:PagedTokenToKVPoolAllocator",
        "token_allocator": f"{_FOLDER}.allocator:TokenToKVPoolAllocator",
        "pools_built_by": "sglang.srt.model_executor.model_runner_kv_cache_mixin",
        "stray_pool_keywords": frozenset({"index_head_dim"}),
        "graph_calls": ("can_run", "replay"),
        "graph_sizes": "server_args.cuda_graph_bs",
        "eager_runner": None,
        "batch_holds_pools": True,
        "forward_context": False,
        "metadata_halves": False,
        "compile_phase": "sglang.srt.compilation.piecewise_context_manager:is_in_pcg_torch_compile",
        "pieces_argument": "disable_piecewise_cuda_graph",
        "op_class": "sglang.srt.layers.utils.multi_platform:MultiPlatformOp",
        "finished_arguments": "sglang.srt.server_args:ServerArgs.__post_init__",
        "keeps_raw_arguments": False,
        "imports_everywhere": frozenset({"sgl_kernel.kvcacheio"}),
        "builds_rotary_off_device": False,
    }),
    ("0.5.13", {
        "dsa_pool": "DSATokenToKVPool",
        "paged_allocator": f"{_FOLDER}.allocator.paged:PagedTokenToKVPoolAllocator",
        "token_allocator": f"{_FOLDER}.allocator.token:TokenToKVPoolAllocator",
        "batch_holds_pools": False,
        "forward_context": True,
        "metadata_halves": True,
        "imports_everywhere": frozenset(),
        "builds_rotary_off_device": True,
        "asks_device": True,
        "asks_quantization_config": True,
    }),
    ("0.5.14", {
        "graph_calls": ("can_run_graph", "execute"),
        "graph_sizes": "server_args.cuda_graph_config.decode.bs",
        "compile_phase": "sglang.srt.compilation.compile_phase:is_in_torch_compile_warmup",
        "pieces_argument": "cuda_graph_config",
        "eager_runner": "sglang.srt.model_executor.runner.eager_runner:EagerRunner",
        "asks_distributed_backend": True,
    }),
    ("0.5.15", {
        "pool_points": frozenset({"_store_kv_layer", "_move_kv_cache_impl"}),
    }),
    ("0.5.16", {
        "pools_built_by": f"{_FOLDER}.kv_cache_configurator",
        "asks_pin_memory": True,
    }),
    ("0.5.18", {
        "pool_points": frozenset({"_store_kv_layer", "_move_kv_cache_impl", "_create_index_key_cache"}),
        "op_class": "sglang.kernels.fused_op:BaseFusedOp",
        "graph_sizes": "get_exec().graph.cuda_graph_config.decode.bs",
    }),
    ("0.5.19", {
        "finished_arguments": "sglang.srt.arg_groups.pipeline:run_resolution_pipeline",
        "keeps_raw_arguments": True,
    }),
    ("0.5.20", {
        "pool_points": frozenset(
            {"_store_kv_layer", "_move_kv_cache_impl", "_create_index_key_cache", "_scatter_mla_rows"}
        ),
    }),
    ("0.5.21", {
        "asks_speculative_algorithm": True,
        "asks_full_graph_backend": True,
    }),
    ("0.5.22", {
        "takes_none_for_parts": True,
        "stray_pool_keywords": frozenset(),
        "translates_slots": True,
        "asks_triton": True,
        "capabilities_struct": True,
        "asks_post_load_model": True,
        "asks_mamba_extra_buffer": True,
        "asks_piecewise_backend": False,
        "loads_plugins_in": frozenset({"launcher", "scheduler", "detokenizer", "data-parallel controller"}),
    }),
    ("0.5.23", {
        "context_takes_batch": True,
        "asks_speculative_worker": True,
        "asks_group_device": True,
    }),
)
# fmt: on

OLDEST = "0.5.11"
NEWEST = "0.5.23"


def facts() -> HostFacts:
    """The facts of the installed SGLang."""
    return facts_for(importlib.metadata.version("sglang"))


@functools.cache
def facts_for(version: str) -> HostFacts:
    """The facts of a release. A newer one than the table gets the newest row, and a warning says so; an older one is
    refused with HostError, since it has no platform interface."""
    from packaging.version import Version

    from sglang_platform.core.errors import HostError

    release = Version(version).release
    if release < Version(OLDEST).release:
        raise HostError(
            f"SGLang {version} has no platform interface",
            why=f"the interface came with SGLang {OLDEST}",
            fix=f"install SGLang {OLDEST} or later",
        )
    if release > Version(NEWEST).release:
        _logger.warning(
            "SGLang %s is newer than the releases this adapter was written for (%s to %s); it is served as %s is. "
            "Run `sglang-platform doctor`.",
            version, OLDEST, NEWEST, NEWEST,
        )  # fmt: skip
    found = HostFacts(version=version)
    for since, changes in _CHANGES:
        if Version(since).release <= release:
            found = replace(found, **changes)
    return found


def known_releases() -> tuple[str, ...]:
    """The releases that changed something, oldest first."""
    return tuple(since for since, _ in _CHANGES)
