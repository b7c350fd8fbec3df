"""The table of differences between releases of SGLang. All other modules of the adapter read it through `facts()`.

One line per fact. Its value is the newest release's; `before` lists earlier values, newest first: `fact(True,
before={"0.5.13": False})` is True since 0.5.13 and False in earlier releases. A new release that changes nothing needs
no edit. For a rename, write the new value and put the old one at the front of `before`. The values were read from the
wheels of every release from 0.5.11 to 0.5.23. (Older spellings in vendors' code are listed in `contract/drift.py`.)
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from packaging.version import Version

from sglang_platform.core.contract.drift import NEWEST
from sglang_platform.core.errors import HostError

__all__ = [
    "NEWEST", "OLDEST", "History", "HostFacts", "facts", "facts_for", "installed_version", "known_releases", "since",
]  # fmt: skip

_logger = logging.getLogger(__name__)

OLDEST = "0.5.11"
"""The first release with a platform interface."""


class History(NamedTuple):
    """The values of one fact across releases."""

    newest: Any
    before: Mapping[str, Any] = {}
    """By release, the value in the releases before it, newest first."""

    def at(self, release: tuple[int, ...]) -> Any:
        """The value in a release, given as a tuple such as (0, 5, 13)."""
        value = self.newest
        for changed, older in self.before.items():
            if release >= _numbers(changed):
                break
            value = older
        return value


def fact(newest: Any, *, before: Mapping[str, Any] | None = None) -> Any:
    return field(default=newest, metadata={"history": History(newest, before or {})})


_POOLS = "sglang.srt.mem_cache"
_RUNNER = "sglang.srt.model_executor"
_XGRAMMAR = "sglang.srt.constrained.xgrammar_backend"
_LLGUIDANCE = "sglang.srt.constrained.llguidance_backend:GuidanceGrammar.apply_vocab_mask"

_KERNELS = "sglang.kernels.ops"
_ATTENTION = "sglang.srt.layers.attention"

_STORE_AND_MOVE = frozenset({"_store_kv_layer", "_move_kv_cache_impl"})
_AND_INDEX_KEYS = _STORE_AND_MOVE | {"_create_index_key_cache"}

_SPECULATIVE = "sglang.kernels.ops.speculative"
_SPECULATIVE_KERNELS = frozenset(
    {
        f"{_SPECULATIVE}.spec_tree:build_tree_kernel_efficient_func",
        f"{_SPECULATIVE}.spec_tree:verify_tree_greedy_func",
        f"{_SPECULATIVE}.reconstruct_tree:reconstruct_indices_from_tree_mask_func",
        f"{_SPECULATIVE}.cache_locs:assign_draft_cache_locs_contiguous_func",
        f"{_SPECULATIVE}.cache_locs:assign_extend_cache_locs_uniform_func",
        f"{_SPECULATIVE}.cache_locs:assign_extend_cache_locs_func",
        f"{_SPECULATIVE}.cache_locs:fill_front_out_cache_loc_func",
        f"{_SPECULATIVE}.eagle:fill_accept_out_cache_loc_func",
        f"{_SPECULATIVE}.eagle:fill_bonus_tokens_func",
        f"{_SPECULATIVE}.gather_spec_extras:gather_spec_extras",
        "sglang.srt.mem_cache.allocation:assign_req_to_token_pool_func",
        "sglang.srt.mem_cache.allocation:get_last_loc",
        "sglang.srt.speculative.spec_utils:_select_top_k_tokens_later",
    }
)


@dataclass(frozen=True)
class HostFacts:
    """The facts of one release. Objects are written `pkg.mod:name`, hook targets `pkg.mod:Class.attr`."""

    version: str = ""

    # Memory

    dsa_pool: str = fact("DSATokenToKVPool", before={"0.5.13": "NSATokenToKVPool"})
    """SGLang's class of DSA pools. The classes of other kinds kept their names: see `pools/kinds.py`."""

    paged_allocator: str = fact(
        f"{_POOLS}.allocator.paged:PagedTokenToKVPoolAllocator",
        before={"0.5.13": f"{_POOLS}.allocator:PagedTokenToKVPoolAllocator"},
    )
    token_allocator: str = fact(
        f"{_POOLS}.allocator.token:TokenToKVPoolAllocator",
        before={"0.5.13": f"{_POOLS}.allocator:TokenToKVPoolAllocator"},
    )

    pool_points: frozenset[str] = fact(
        _AND_INDEX_KEYS | {"_scatter_mla_rows"},
        before={"0.5.20": _AND_INDEX_KEYS, "0.5.18": _STORE_AND_MOVE, "0.5.15": frozenset()},
    )
    """The overridable methods of a KV pool that SGLang's own pool methods call."""

    describes_buffers: bool = fact(True, before={"0.5.16": False})
    """Whether `_build_kv_buffer_descs()` describes the buffers of an MHA pool; earlier, separate tensors did."""

    write_location: str | None = fact(f"{_POOLS}.memory_pool:KVWriteLoc", before={"0.5.14": None})
    """The class that holds slots in the full pool and in the sliding-window pool; None: the pool maps slots itself."""

    dsa_fp8_flag: str = fact("dsa_kv_cache_store_fp8", before={"0.5.13": "nsa_kv_cache_store_fp8"})
    """The attribute of an MLA pool: whether its rows are packed for DSA."""

    takes_none_for_parts: bool = fact(True, before={"0.5.22": False})
    """Whether None from a pool or allocator factory selects SGLang's own class."""

    stray_pool_keywords: frozenset[str] = fact(frozenset(), before={"0.5.22": frozenset({"index_head_dim"})})
    """Keywords that SGLang passes to a platform's MLA pool, although its own class does not accept them."""

    host_pools: tuple[str, ...] = fact(
        (
            f"{_POOLS}.pool_host.mha:MHATokenToKVPoolHost",
            f"{_POOLS}.pool_host.mla:MLATokenToKVPoolHost",
            f"{_POOLS}.pool_host.dsa:DSAIndexerPoolHost",
        ),
        before={
            "0.5.19": (
                f"{_POOLS}.pool_host.mha:MHATokenToKVPoolHost",
                f"{_POOLS}.pool_host.mla:MLATokenToKVPoolHost",
                f"{_POOLS}.memory_pool_host:DSAIndexerPoolHost",
            ),
            "0.5.16": (
                f"{_POOLS}.memory_pool_host:MHATokenToKVPoolHost",
                f"{_POOLS}.memory_pool_host:MLATokenToKVPoolHost",
                f"{_POOLS}.memory_pool_host:DSAIndexerPoolHost",
            ),
            "0.5.13": (
                f"{_POOLS}.memory_pool_host:MHATokenToKVPoolHost",
                f"{_POOLS}.memory_pool_host:MLATokenToKVPoolHost",
                f"{_POOLS}.memory_pool_host:NSAIndexerPoolHost",
            ),
        },
    )
    """The host-memory pools of the hierarchical cache, one per kind of KV pool."""

    host_allocations: str = fact(
        f"{_POOLS}.pool_host.common:ALLOC_MEMORY_FUNCS",
        before={"0.5.14": f"{_POOLS}.memory_pool_host:ALLOC_MEMORY_FUNCS"},
    )
    """The allocation functions of these host-memory pools, by device type."""

    # Graphs and attention

    graph_calls: tuple[str, str] = fact(
        ("can_run_graph", "execute"), before={"0.5.14": ("can_run", "replay")}
    )
    """The methods of a decode graph runner that SGLang calls: whether a batch can run, and the replay."""

    decode_runner: str = fact("decode_cuda_graph_runner", before={"0.5.14": "graph_runner"})
    """The attribute of a model runner that holds the decode graph runner."""

    eager_runner: str | None = fact(f"{_RUNNER}.runner.eager_runner:EagerRunner", before={"0.5.14": None})

    graph_sizes: tuple[str | None, str] = fact(
        ("sglang.srt.runtime_context:get_exec", "graph.cuda_graph_config.decode.bs"),
        before={
            "0.5.18": (None, "server_args.cuda_graph_config.decode.bs"),
            "0.5.14": (None, "server_args.cuda_graph_bs"),
        },
    )
    """Where to read the batch sizes to capture: a function (None: the model runner) and an attribute path."""

    batch_holds_pools: bool = fact(False, before={"0.5.13": True})
    """Whether a `ForwardBatch` has the pools and the attention backend as attributes."""

    forward_context: bool = fact(True, before={"0.5.13": False})
    """Whether a forward runs inside `forward_context(...)`."""

    context_takes_batch: bool = fact(True, before={"0.5.23": False})
    """Whether `forward_context` also takes the batch."""

    translates_slots: bool = fact(True, before={"0.5.22": False})
    """Whether a static batch must be bound to the runner's slot translator."""

    knows_hyper_connections: bool = fact(True, before={"0.5.12": False})
    """Whether a model config has `hc_hidden_size`, the width of hidden states that include the residual streams."""

    hands_over_indices: bool = fact(True, before={"0.5.14": False})
    """Whether a model runner has `get_pp_proxy_topk_size`: how many attention indices a pipeline stage receives."""

    hands_over_blocks: bool = fact(True, before={"0.5.17": False})
    """Whether it has `get_pp_proxy_residual_num_blocks`: how many residual blocks a pipeline stage receives."""

    blocks_handed_over_as: str = fact("attn_res_bank", before={"0.5.22": "residual"})

    metadata_halves: bool = fact(True, before={"0.5.13": False})
    """Whether attention metadata is prepared in two halves: outside and inside the graph."""

    barrier_asks_backend: bool = fact(True, before={"0.5.22": False})
    """Whether the scheduler's barrier on CUDA runs right after a launch, and asks the attention backend in every mode
    when its reads end (`shared_read_ends`; since 0.5.18, for all modes but a draft's extend)."""

    server_hidden_mode: str | None = fact(
        f"{_RUNNER}.forward_batch_info:get_server_return_hidden_states_mode", before={"0.5.18": None}
    )
    """The function that returns the server-wide hidden-states mode; None: a batch with hidden states runs eagerly."""

    init_lora_of_graphs: str | None = fact(
        "init_decode_cuda_graph_batch_info",
        before={"0.5.23": "init_cuda_graph_batch_info", "0.5.20": None},
    )
    """The method of a LoRA manager that allocates the adapter metadata of decode graphs, called with the largest batch
    size and the tokens per request; None: SGLang does this on CUDA only."""

    lora_skips_batches: tuple[str, ...] = fact(
        ("skip_inactive_lora_batches", "skip_inactive_dense_lora"),
        before={"0.5.23": ("skip_inactive_lora_batches",)},
    )
    """Flags of a LoRA backend that skips batches without adapters: a capture would then not record its kernels."""

    op_class: str = fact(
        "sglang.kernels.fused_op:BaseFusedOp",
        before={"0.5.18": "sglang.srt.layers.utils.multi_platform:MultiPlatformOp"},
    )

    op_choice: str = fact("_resolve_forward_method", before={"0.5.18": "dispatch_forward"})
    """The method of `op_class` that chooses the forward."""

    # Server arguments

    finished_arguments: str = fact(
        "sglang.srt.arg_groups.pipeline:run_resolution_pipeline",
        before={"0.5.19": "sglang.srt.server_args:ServerArgs.__post_init__"},
    )
    """The function that has filled in every server argument when it returns."""

    keeps_raw_arguments: bool = fact(True, before={"0.5.19": False})
    """Whether the record holds the operator's own values (`_raw_input`)."""

    resolved_view: str | None = fact("sglang.srt.arg_groups.overrides:resolved_view", before={"0.5.15": None})
    """The function that returns a view of the record with resolved values; None: the record itself holds them."""

    declares_arguments: str = fact(
        "sglang.srt.arg_groups.overrides:record_foreign_defaults",
        before={"0.5.20": "sglang.srt.arg_groups.overrides:declare_direct_writes"},
    )
    """The function that wraps assignments to such a record. Used only if `keeps_raw_arguments`."""

    settles_model: str = fact(
        "sglang.srt.arg_groups.model_hook:handle_model_specific_adjustments",
        before={"0.5.19": "sglang.srt.server_args:ServerArgs._handle_model_specific_adjustments"},
    )
    """The function that adjusts the arguments to the model, and asserts the name of its attention backend."""

    # Requests

    typed_requests: bool = fact(True, before={"0.5.15": False})
    """Whether the fields of a request declare types, against which workers decode msgpack (unless pickle is used)."""

    media_on_cuda: str | None = fact(
        None, before={"0.5.21": "sglang.srt.multimodal.processors.base_processor:BaseMultimodalProcessor"}
    )
    """The class that processes images on CUDA unless the `_is_cpu` flag of its module is set."""

    leaves_out_token_logprobs: str | None = fact(
        None,
        before={
            "0.5.21": "sglang.srt.layers.logprob_processor:get_token_ids_logprobs",
            "0.5.16": "sglang.srt.layers.utils.logprob:get_token_ids_logprobs",
        },
    )
    """The function that returns a list among tensors for requests of a batch without `token_ids_logprob`."""

    # What SGLang asks a platform. If it does not ask, a hook supplies the answer, or the limit is reported.

    imports_everywhere: frozenset[str] = fact(
        frozenset(),
        before={
            "0.5.16": frozenset({"sglang.jit_kernel.dsa.cutedsl_paged_mqa_logits"}),
            "0.5.15": frozenset(),
            "0.5.13": frozenset({"sgl_kernel.kvcacheio"}),
        },
    )
    """CUDA modules that SGLang imports unconditionally on every device."""

    imports_on_cuda: frozenset[str] = fact(
        frozenset(),
        before={
            "0.5.23": frozenset(
                {"deep_gemm", "flashinfer", "flashinfer.gemm", "flashinfer.prefill", "flashinfer.sampling"}
            )
        },
    )
    """The modules of FlashInfer and DeepGEMM that SGLang imports unconditionally on CUDA."""

    builds_rotary_off_device: bool = fact(True, before={"0.5.13": False})
    """Whether rotary embeddings can be built on an out-of-tree platform without vLLM installed."""

    capabilities_struct: bool = fact(True, before={"0.5.22": False})
    """Whether SGLang reads `capabilities`, and calls `get_kv_pool_cls(kind=)` for pools."""

    asks_every_platform: bool = fact(True, before={"0.5.22": False})
    """Whether in-tree platforms are asked for pools, allocators and graph runners as well."""

    asks_device: bool = fact(True, before={"0.5.13": False})
    """Whether SGLang accepts an out-of-tree device type, and asks the platform for its default device."""

    asks_triton: bool = fact(True, before={"0.5.22": False})
    asks_hicache_kernels: bool = fact(True, before={"0.5.22": False})
    asks_pynccl: bool = fact(True, before={"0.5.23": False})
    asks_quantization_config: bool = fact(True, before={"0.5.13": False})
    asks_distributed_backend: bool = fact(True, before={"0.5.14": False})
    asks_pin_memory: bool = fact(True, before={"0.5.16": False})
    asks_speculative_algorithm: bool = fact(True, before={"0.5.21": False})
    asks_speculative_worker: bool = fact(True, before={"0.5.23": False})
    asks_full_graph_backend: bool = fact(True, before={"0.5.21": False})
    asks_post_load_model: bool = fact(True, before={"0.5.22": False})
    asks_mamba_extra_buffer: bool = fact(True, before={"0.5.22": False})
    asks_group_device: bool = fact(True, before={"0.5.23": False})

    asks_piecewise_backend: bool = fact(False, before={"0.5.22": True})
    """Whether SGLang offers piecewise compiled prefill (`tc_piecewise`)."""

    # Speculative decoding

    settles_speculation: str = fact(
        "sglang.srt.arg_groups.speculative_hook:handle_speculative_decoding",
        before={"0.5.13": "sglang.srt.server_args:ServerArgs._handle_speculative_decoding"},
    )
    """The function that checks the algorithm and its arguments."""

    speculative_kernels: frozenset[str] = fact(_SPECULATIVE_KERNELS, before={"0.5.23": frozenset()})
    """The functions that launch SGLang's speculative kernels; empty: they cannot be replaced."""

    speculative_sampling: str = fact("sglang.srt.speculative.eagle_utils:eagle_sample")
    """The verification function; its module imports the sampling kernels by name."""

    model_config_of: str = fact(
        "sglang.srt.arg_groups.model_override_base:model_config_of", before={"0.5.20": ""}
    )
    """The function that returns the model config for server arguments; empty: a method in older releases."""

    config_with_states: str = fact("sglang.srt.configs.hybrid_arch:mambaish_config")
    """The function that returns None for a model whose layers keep no state per request; missing in older releases."""

    stamps_draft_backends: bool = fact(True, before={"0.5.18": False})
    """Whether the factories of draft attention backends also return a name."""

    # Sampling

    applies_grammar_mask: tuple[str, ...] = fact((f"{_XGRAMMAR}:XGrammarGrammar.apply_vocab_mask",))
    """The methods that apply a grammar's mask to logits: `(self, logits, vocab_mask)`."""

    applies_grammar_mask_statically: tuple[str, ...] = fact(
        (f"{_XGRAMMAR}:XGrammarGrammarBackend.apply_vocab_mask", _LLGUIDANCE),
        before={"0.5.12": (_LLGUIDANCE,)},
    )
    """The same as static methods: `(logits, vocab_mask)`."""

    caps_logits: str = fact(
        f"{_KERNELS}.activation.softcap:softcap_inplace_logits",
        before={
            "0.5.16": "sglang.srt.layers.triton_ops.softcap:softcap_inplace_logits",
            "0.5.13": "sglang.srt.layers.logits_processor:fused_softcap",
        },
    )
    """The Triton kernel that caps a model's logits, in place."""

    # Recurrent layers (state per request)

    convolution_kernels: str = fact(_KERNELS + ".mamba", before={"0.5.16": f"{_ATTENTION}.mamba"})
    state_space_kernels: str = fact(
        _KERNELS + ".mamba.triton_ops", before={"0.5.16": f"{_ATTENTION}.mamba.ops"}
    )
    delta_rule_kernels: str = fact(f"{_KERNELS}.attention.fla", before={"0.5.16": f"{_ATTENTION}.fla"})
    delta_gate_kernels: str = fact(
        f"{_KERNELS}.attention.linear",
        before={"0.5.23": f"{_KERNELS}.attention.fla", "0.5.16": f"{_ATTENTION}.fla"},
    )
    delta_projection: str = fact(
        f"{_KERNELS}.attention.triton_gdn_fused_proj",
        before={"0.5.17": "sglang.jit_kernel.triton.gdn_fused_proj"},
    )
    """Packages of the Triton kernels (the last: the module that splits the fused projections of a gated delta net)."""

    gates_shared_experts: str | None = fact(
        f"{_KERNELS}.elementwise.elementwise:fused_gate_sigmoid_mul_add",
        before={
            "0.5.17": f"{_KERNELS}.layernorm.elementwise:fused_gate_sigmoid_mul_add",
            "0.5.16": "sglang.srt.layers.elementwise:fused_gate_sigmoid_mul_add",
            "0.5.14": None,
        },
    )
    """The Triton kernel that adds the gated output of shared experts."""

    decides_on_snapshots: str | None = fact(
        "sglang.srt.arg_groups.overrides:supports_mamba_cache_extra_buffer", before={"0.5.15": None}
    )
    """The function that says whether states can be snapshotted for prefix reuse; if so, SGLang does so by default."""

    # Prefill-decode disaggregation

    prefill_events: tuple[str, ...] = fact(
        ("maybe_send_cached_prefix_chunk", "send_kv_chunk"),
        before={"0.5.23": ("maybe_send_cached_prefix_chunk",), "0.5.16": ()},
    )
    """Methods of `disaggregation.prefill:SchedulerDisaggregationPrefillMixin` that create a `torch.cuda` event."""

    weight_updater: str = fact(
        "sglang.srt.managers.scheduler_components.weight_updater:SchedulerWeightUpdaterManager",
        before={"0.5.13": "sglang.srt.managers.scheduler_update_weights_mixin:SchedulerUpdateWeightsMixin"},
    )
    """The class that releases and resumes a worker's memory."""

    releases_while_paused: bool = fact(True, before={"0.5.21": False})
    """Whether a paused engine can release memory while requests are waiting."""

    races_when_it_sends_early: bool = fact(False, before={"0.5.22": True, "0.5.15": False})
    """Whether rows of a cached prefix may be sent while a forward is still writing them (a race)."""

    counts_attention_ranks: bool = fact(True, before={"0.5.22": False})
    """Whether `attn_dp_size` holds the number of data-parallel attention ranks (earlier: `enable_dp_attention`)."""

    graphs_of_ranks_apart: bool = fact(True, before={"0.5.23": False})
    """Whether decode graphs work with data-parallel attention; earlier releases were not tried."""

    copy_of_local_rows: str = fact(
        "sglang.srt.layers.dp_attention:memcpy",
        before={"0.5.20": "sglang.srt.layers.dp_attention:memcpy_triton"},
    )
    """The function that copies between a rank's local rows and the global buffer in data-parallel attention."""

    # Processes

    sets_device: str = fact(
        "sglang.srt.distributed.bootstrap:init_parallel_runtime",
        before={"0.5.21": "sglang.srt.managers.scheduler:Scheduler.__init__"},
    )
    """The function in which a scheduler process sets its device, before it allocates memory there; it runs once."""

    ranks_in_context: bool = fact(True, before={"0.5.21": False})
    """Whether `runtime_context` holds the ranks of a process; earlier, `sets_device` takes them as arguments."""

    has_all_to_all: bool = fact(True, before={"0.5.13": False})
    """Whether a group has `all_to_all_single`; the other collectives exist in every release."""

    loads_plugins_in: frozenset[str] = fact(
        frozenset({"launcher", "scheduler", "detokenizer", "data-parallel controller"}),
        before={"0.5.22": frozenset({"launcher", "scheduler"})},
    )


TABLE: dict[str, History] = {f.name: f.metadata["history"] for f in fields(HostFacts) if f.metadata}
"""The facts above by name, each with its history."""


def facts() -> HostFacts:
    """The facts of the installed SGLang."""
    return facts_for(installed_version())


@functools.cache
def facts_for(version: str) -> HostFacts:
    """The facts of a release. Raises HostError before OLDEST, where SGLang has no platform interface.

    A version newer than the table gets the newest values, with a warning. So does a source build after the newest
    release (`0.5.24.dev3+g1a2b3c4`) or without a git tag (`0.0.0`).
    """
    untagged = not any(_numbers(version))
    release = _numbers(NEWEST if untagged else version)
    if release < _numbers(OLDEST):
        raise HostError(
            f"SGLang {version} has no platform interface",
            why=f"the interface came with SGLang {OLDEST}",
            fix=f"pip install 'sglang>={OLDEST}'",
        )
    if untagged or Version(Version(version).public) > Version(NEWEST):
        _logger.warning(
            "SGLang %s is newer than the releases this adapter was written for (%s to %s); it is served as %s is. "
            "Run `sglang-platform doctor`.",
            version, OLDEST, NEWEST, NEWEST,
        )  # fmt: skip
    return HostFacts(version, **{name: history.at(release) for name, history in TABLE.items()})


def since(fact_name: str) -> str:
    """The first release in which the fact has its newest value."""
    return next(iter(TABLE[fact_name].before), OLDEST)


def known_releases() -> tuple[str, ...]:
    """The releases that changed a fact, oldest first, with OLDEST and NEWEST."""
    changed = {release for history in TABLE.values() for release in history.before}
    return tuple(sorted({OLDEST, NEWEST, *changed}, key=_numbers))


def _numbers(version: str) -> tuple[int, ...]:
    return Version(version).release


def installed_version() -> str:
    """The version in SGLang's package metadata. Raises HostError if it is missing or unreadable."""
    try:
        version: str | None = importlib.metadata.version("sglang")
    except (LookupError, ImportError, OSError, ValueError) as error:
        version, why = None, str(error)
    else:
        why = "its METADATA has no Version"
    if version is None:
        raise HostError(
            "the version of the installed SGLang cannot be told",
            why=why,
            fix="pip install --force-reinstall sglang",
        )
    return version
