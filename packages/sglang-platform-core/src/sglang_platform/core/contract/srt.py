"""The platform contract of the LLM runtime (SGLang's `srt`).

Names, parameters and defaults follow SGLang 0.5.23 (`sglang.srt.platforms.interface`). Core's own additions,
which the host adapter carries in by hook: `finalize_server_args`, `stub_modules`, `get_attention_backends`,
`get_token_bitmask_fn`, `get_default_lora_backend`, `get_state_kernels`, `get_host_memory_cls`, `get_memory_saver_cls`,
`get_transfer_engine_cls`, and the declarations that the conformance suite reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sglang_platform.core.contract.capabilities import PlatformCapabilities
from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.types import KVPoolKind, kv_pool_kind

if TYPE_CHECKING:
    from types import ModuleType

    import torch

__all__ = ["SRTPlatform"]

_INDUCTOR_DEVICES = ("cpu", "cuda", "mps", "mtia", "tpu", "xpu")
"""Of torch 2.13 (`torch/_inductor/codegen/common.py`, `init_backend_registration`)."""


class SRTPlatform(DeviceMixin):
    """A platform as the LLM runtime sees it. Subclass it together with a device mixin, in either order.

    Unless a docstring says otherwise a factory may answer None ("no opinion": the host takes its own) or
    raise NotImplementedError with a reason ("not on this device"). Anything else must be a class, never an
    instance. The host asks them in each worker process, after `init_backend`.
    """

    _defines_contract: ClassVar[bool] = True

    supported_quantization: list[str] = []
    """The quantisation methods the device runs, by the host's names; empty says nothing."""

    capabilities: PlatformCapabilities = PlatformCapabilities()
    """What the platform can do; the host reads it before it builds anything. A property where it depends on
    the device found."""

    # Declarations for the conformance suite: what is not declared is not tested, and the report says so.

    supported_kv_dtypes: Collection[str] = ()
    """Types the KV pools store, by torch's names without the prefix: `("bfloat16", "float8_e4m3fn")`."""

    supported_page_sizes: Collection[int] = ()
    """Tokens per page the paged allocator and the attention backends work with: `(1, 16, 64)`."""

    supported_kv_kinds: Collection[KVPoolKind] = ()
    """Kinds for which `get_kv_pool_cls` answers with a class: of `("mha", "mla", "dsa")`."""

    attention_features: Collection[str] = frozenset()
    """What the attention backends compute, in the words of `contract.attention_features`."""

    kernels: Collection[str] = ()
    """Where the kernels are declared, one `"pkg.mod:NAME"` per kernel family. Locations, so that declaring
    imports nothing; the suite loads them to run and compile the kernels on a machine without the device."""

    conformance_profiles: Collection[str] = ("core",)
    """The profiles of the conformance suite that the platform claims to pass; they decide the verdict."""

    # Lifecycle

    def apply_server_args_defaults(self, server_args: Any) -> None:
        """Fills in the defaults this platform wants in the host's `ServerArgs`, in place; early, in the
        launcher.

        The host settles some arguments before (on device type `cpu` the attention backend) and overwrites
        others afterwards; `finalize_server_args` has the last word.
        """

    def finalize_server_args(self, server_args: Any) -> None:
        """Has the last word on the host's `ServerArgs`, in place, after all of the host's own rules."""

    def stub_modules(self) -> Mapping[str, ModuleType | None]:
        """Modules that the host imports but this device lacks: dotted name to replacement module.

        None stands for an empty module. The host adapter installs them in each process before the host
        imports them; a module that can be imported for real is left alone.
        """
        return {}

    def init_backend(self) -> None:
        """Loads libraries and registers operators, once in each worker process, before any model is built."""

    def initialize_device(self, rank: int, local_rank: int) -> None:
        """Makes this worker's device ready: opens it, sets it current, reserves what it needs.

        Called once in each process that runs a model, right before the host sets the device and makes the process
        groups: nothing lies on the device yet. `init_backend()` may come later (0.5.23) or have been. rank: the
        worker's in the model-parallel world (an engine of data parallelism has its own), pipeline stage by stage.
        local_rank: the index of its device on this machine, that of `get_device`. An exception stops the launch.
        Carried in by hook: the host has no place for it.
        """

    def post_load_model(self, model: torch.nn.Module) -> None:
        """Changes `model` in place, once its weights are loaded, in each worker (host 0.5.22 and later)."""

    # Attention

    def get_default_attention_backend(self) -> str:
        """The attention backend to use when the operator names none: a key of `get_attention_backends()` or
        one of the host's own names. The host asks out-of-tree platforms while it settles its arguments.

        The default is the platform's backend where it brings one. Where it brings none the host adapter offers core's
        in plain torch (`portable_torch`), which runs on any torch device.
        """
        own = list(self.get_attention_backends())
        if self.is_out_of_tree() and len(own) < 2:
            return own[0] if own else "torch_native"
        raise NotImplementedError(
            f"{type(self).__name__} does not implement get_default_attention_backend(): it must return the "
            "name of an attention backend, one of its own get_attention_backends() or one of the host's."
        )

    def get_attention_backends(self) -> Mapping[str, Callable[..., Any]]:
        """The attention backends this platform brings: name to factory.

        A factory is an `AttentionBackend` subclass, or a function `(model_runner) -> backend`. The host
        adapter registers each under its name in every worker, and adds the names to the command line's
        choices.
        """
        return {}

    # Memory

    def get_kv_pool_cls(self, *, kind: KVPoolKind) -> type | None:
        """The KV pool class for `kind`: `mha` (keys and values per head), `mla` (one latent row per token) or
        `dsa` (`mla` with indexer keys). None is the host's own pool, which works on any torch device.

        The answer subclasses core's pool of that kind. It is built with the keyword arguments of the host's
        class of the kind, at every place where the host builds one, composite pools included. A caller may
        say `nsa`, the older name of `dsa`; it passes `contract.types.kv_pool_kind` first. A kind that the platform
        does not know is refused by ValueError or KeyError, or left to the host by None.
        """
        kv_pool_kind(kind)
        return None

    def get_paged_allocator_cls(self) -> type | None:
        """The allocator the host uses when `page_size` is above 1. None is the host's own."""
        return None

    def get_host_memory_cls(self) -> type | None:
        """The `HostMemory` class, which allocates and copies host memory for this device, for the hierarchical
        cache of evicted keys and values. None is core's own: torch's page-locked memory where
        `is_pin_memory_available()`, plain copies on the current stream."""
        return None

    def get_memory_saver_cls(self) -> type | None:
        """The `core.memory.memory_saver.MemorySaver` class, which releases device memory while the engine is
        paused (`--enable-memory-saver`). None is core's own, which empties the storage of every tensor and
        allocates it again: at another address, so graphs are captured anew."""
        return None

    def get_transfer_engine_cls(self) -> type | None:
        """The `core.distributed.transfer_engine.TransferEngine` class, which transfers keys and values from a
        prefill engine to a decode engine. None is core's own, which copies to the host and sends over
        TCP."""
        return None

    # Graphs and compilation

    def get_graph_runner_cls(self) -> type | None:
        """The runner that captures and replays decode steps, built as `cls(model_runner)`.

        Asked where `capabilities.graph_capture` is True; the host refuses None from an out-of-tree platform
        then. On device type `cpu` it asks only with `enable_torch_compile`. Adaptive speculative decoding
        builds more runners of this class, with the keywords `attn_backend`, `speculative_num_steps` and
        `speculative_num_draft_tokens`.
        """
        return None

    def get_full_graph_backend_cls(self) -> type | None:
        """The backend with which graph runners of the host's own capture whole graphs: `FullGraphBackend`.

        They are those of a draft model; the target's is `get_graph_runner_cls()` (host 0.5.21 and later)."""
        return None

    def get_piecewise_backend_cls(self) -> type | None:
        """The backend for piecewise compilation of prefill: a class of the host's form, passed on as it is.

        SGLang 0.5.11 to 0.5.21 ask for it while they compile prefill in pieces, which is their default on an
        out-of-tree platform with `capabilities.piecewise_graph`; such a platform must not answer None. 0.5.22
        and later do not compile in pieces.
        """
        return None

    def get_compile_backend(self, mode: str | None = None) -> str:
        """The `torch.compile` backend; `mode` is the host's hint on what it compiles, e.g. `"npugraph_ex"`.

        The host compiles small functions of its sampler: one request with a repetition penalty calls for it. So the
        default is `"inductor"` for the device types that torch's inductor generates code for, and `"eager"` for any
        other, where inductor would end the server.
        """
        return "inductor" if self.device_type in _INDUCTOR_DEVICES else "eager"

    def get_dispatch_key_name(self) -> str:
        """Which `forward_<key>` of the host's multi-platform operators runs on an out-of-tree platform.

        An existing key (`"cuda"`, `"hip"`, `"cpu"`) reuses that implementation; a key of one's own needs
        registered forwards; `"native"` is plain torch.
        """
        return "native"

    # Quantisation and placement

    def get_quantization_config(self, quantization: str) -> type | None:
        """The quantisation config class for the host's method `quantization`; None is the host's own,
        ValueError refuses the method (host 0.5.13 and later)."""
        return None

    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        """The device a model-parallel group binds to on this rank (host 0.5.23 and later, out-of-tree
        only)."""
        import torch

        return torch.device("cpu")

    # Sampling

    def get_token_bitmask_fn(self) -> Callable[[torch.Tensor, torch.Tensor], None] | None:
        """The function that applies a grammar's mask to logits in place, as `fn(logits, bitmask)`.

        logits: [B, V] of a floating type, on the device. bitmask: int32 [B, ceil(V / 32)] beside them; bit `i % 32` of
        word `i // 32` is 1 where token `i` is allowed, and the others become -inf. None is core's own, in plain torch
        (`portable/torch/token_bitmask.py`), and on an in-tree platform the host's. Carried in by hook: the host has
        it for its own devices only.
        """
        return None

    # Adapters

    def get_default_lora_backend(self) -> str | None:
        """The LoRA backend when the operator names none, by the host's name or one that the platform registers with the
        host in `init_backend()`. None is the host's default, and where `capabilities.supports_triton` is False
        `"torch_native"`: the host's default is written in Triton."""
        return None

    # Layers with states

    def get_state_kernels(self) -> Mapping[str, Callable[..., Any]]:
        """The kernels of layers that keep a state per request, by the names and with the arguments of
        `contract.state_kernels`: short convolutions, gated delta nets, Mamba-2. Core's own in plain torch
        (`portable/torch/state_kernels.py`) stand in for those that are left out.

        Asked of an out-of-tree platform whose `capabilities.supports_triton` is False; elsewhere the host's own serve,
        which are written in Triton. Carried in by hook: the host has no place for it.
        """
        return {}

    # Speculative decoding and hybrid models

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        """Whether `algorithm` (the host's name, e.g. `"EAGLE"`) runs here. The host stops the launch on
        False."""
        return False

    def supports_speculative_draft_attention_backend(self, algorithm: str, backend: str) -> bool:
        """Whether the draft model of `algorithm` may use the attention backend `backend`."""
        return False

    def get_default_speculative_draft_attention_backend(self, algorithm: str) -> str:
        """The draft model's attention backend when the operator names none."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement get_default_speculative_draft_attention_backend(): it "
            f"must return the name of an attention backend for the draft model of {algorithm!r}."
        )

    def get_speculative_worker_cls(self, algorithm: str) -> type | None:
        """The worker that replaces the host's for `algorithm`: same constructor keywords, same interface to
        the scheduler. None keeps the host's (host 0.5.23 and later, out-of-tree only)."""
        return None

    def get_speculative_graph_runner_cls(self, algorithm: str, phase: str) -> type | None:
        """The runner that captures the draft model; `phase` is `"draft_decode"` or `"draft_extend"`.

        None: the host's own runner, with the graphs of `get_full_graph_backend_cls()`; without a graph where that is
        None too. Asked only where `capabilities.graph_capture` is True.
        """
        return None

    def get_speculative_cache_locs_fn(self) -> Callable[..., torch.Tensor] | None:
        """The function that reads the KV slots of the tokens to verify, or None for the host's (0.5.21 and later).

        Called with keywords; it answers `req_to_token[req_pool_indices[i], start_offset[i] : end_offset[i]]` of each
        request, one after the other, in a new tensor of `batch_size * draft_token_num` integers.
        """
        return None

    def support_mamba_cache_extra_buffer(self) -> bool:
        """Whether the state of linear-attention layers can be snapshot for prefix reuse (host 0.5.22 and
        later)."""
        return False
