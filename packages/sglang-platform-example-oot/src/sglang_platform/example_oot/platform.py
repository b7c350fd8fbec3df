"""The platform for the LLM runtime: what the device can do, and its parts.

A vendor changes: the capabilities and declarations, and the names of the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core import PlatformCapabilities, SRTPlatform
from sglang_platform.core.contract.types import kv_pool_kind

from sglang_platform.example_oot import (
    host_functions,
    kernels,
    kv_pools,
    machine,
    more_ops,
    op_calls,
    ops,
)
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.device import ExampleOOTDeviceMixin
from sglang_platform.example_oot.graph_runner import (
    ExampleOOTFullGraphBackend,
    ExampleOOTGraphRunner,
)
from sglang_platform.example_oot.quantization import config_class

ATTENTION_BACKEND = "example_oot"
DISPATCH_KEY = "example_oot"


class ExampleOOTPlatform(SRTPlatform, ExampleOOTDeviceMixin):
    """SGLang on the example device."""

    capabilities = PlatformCapabilities(graph_capture=True, fp8=True)
    supported_quantization = ["w8a8_int8"]  # noqa: RUF012  # a list in the contract
    supported_kv_dtypes = ("float32", "bfloat16", "float16", "float8_e4m3fn")
    supported_page_sizes = (1, 16, 32, 64, 128)
    conformance_profiles = (
        "core", "moe", "mla", "long-context", "structured", "lora", "speculative", "parallel", "diffusion",
    )  # fmt: skip
    supported_kv_kinds = ("mha", "mla", "dsa")
    attention_features = (
        "mha",
        "gqa",
        "mqa",
        "mla",
        "sliding_window",
        "logit_cap",
        "sinks",
        "encoder",
        "chunked_prefill",
        "mixed_batch",
        "fp8_kv",
        "draft_tree",
    )

    def apply_server_args_defaults(self, server_args: Any) -> None:
        """Defaults that suit the device; the operator's own choices stay."""
        server_args.sampling_backend = "pytorch"
        machine.share_cores(server_args.tp_size * server_args.pp_size * server_args.dp_size)
        if not server_args.disable_cuda_graph and self.device_type == "cpu":
            # There the host asks for a graph runner only under this flag; nothing is compiled by it.
            server_args.enable_torch_compile = True

    def get_default_attention_backend(self) -> str:
        return ATTENTION_BACKEND

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {ATTENTION_BACKEND: ExampleOOTAttentionBackend}

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        pools = {
            "mha": kv_pools.ExampleOOTMHAPool,
            "mla": kv_pools.ExampleOOTMLAPool,
            "dsa": kv_pools.ExampleOOTDSAPool,
        }
        return pools[kv_pool_kind(kind)]

    def get_paged_allocator_cls(self) -> type | None:
        return ExampleOOTPagedAllocator

    def get_graph_runner_cls(self) -> type | None:
        return ExampleOOTGraphRunner if self.capabilities.graph_capture else None

    def get_full_graph_backend_cls(self) -> type | None:
        return ExampleOOTFullGraphBackend if self.capabilities.graph_capture else None

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        return algorithm in ("NGRAM", "STANDALONE", "EAGLE")

    def get_group_coordinator_device(self, local_rank: int) -> Any:
        return self.get_device(local_rank)

    def verify_quantization(self, quant: str) -> None:
        if quant not in self.supported_quantization:
            raise ValueError(f"the example device runs {self.supported_quantization}, not {quant!r}")

    def get_quantization_config(self, quantization: str) -> type | None:
        if quantization != "w8a8_int8":
            return None
        return config_class()

    def get_dispatch_key_name(self) -> str:
        return DISPATCH_KEY

    def get_compile_backend(self, mode: str | None = None) -> str:
        return "eager"

    def init_backend(self) -> None:
        """Register what serves in the host; building or loading the kernels here keeps the first request fast."""
        kernels.backend()
        op_calls.register({**ops.FORWARDS, **more_ops.FORWARDS}, DISPATCH_KEY)
        host_functions.register()
