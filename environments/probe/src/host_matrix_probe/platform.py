"""The example device, written in today's names only, counting the answers that older hosts never asked for."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from sglang_platform.core import (
    DeviceMixin,
    DSATokenToKVPool,
    MLATokenToKVPool,
    PlatformCapabilities,
    PlatformEnum,
    SRTPlatform,
    counter,
)
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.platform import DISPATCH_KEY

RUNNING_REQUESTS = 5
"""What `finalize_server_args` makes of `max_running_requests`; no host version arrives at it by itself."""

ABSENT = "host_matrix_absent_library"

_finalised = counter("probe.finalize_server_args")
_loaded = counter("probe.post_load_model")
_pinned = counter("probe.is_pin_memory_available")
_quantisation = counter("probe.get_quantization_config")
_group_device = counter("probe.get_group_coordinator_device")
_started = counter("probe.init_backend")
_mla = counter("probe.mla.stores")


class ProbeMLAPool(MLATokenToKVPool):
    def _scatter_mla_rows(self, *args: Any) -> None:
        _mla.add()
        super()._scatter_mla_rows(*args)


class ProbeDSAPool(DSATokenToKVPool):
    def _scatter_mla_rows(self, *args: Any) -> None:
        _mla.add()
        super()._scatter_mla_rows(*args)


class ProbeDevice(DeviceMixin):
    """The machine's CPU under its own torch device type, which every release can serve on."""

    _enum = PlatformEnum.OOT
    device_name = "host_matrix_probe"
    device_type = "cpu"

    def get_device(self, device_id: int | None = 0) -> torch.device:
        return torch.device("cpu")

    def set_device(self, device: torch.device) -> None:
        """One device."""

    def get_device_name(self, device_id: int = 0) -> str:
        return "cpu"

    def get_device_uuid(self, device_id: int = 0) -> str:
        return f"probe-{device_id}"

    def get_device_capability(self, device_id: int = 0) -> None:
        return None

    def get_device_total_memory(self, device_id: int = 0) -> int:
        return 16 << 30

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        return 15 << 30, 16 << 30

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        return float(1 << 30)


class ProbePlatform(SRTPlatform, ProbeDevice):
    capabilities = PlatformCapabilities(graph_capture=True, fp8=True)
    attention_features = ("mha", "gqa", "mqa")

    def apply_server_args_defaults(self, server_args: Any) -> None:
        server_args.sampling_backend = "pytorch"
        if not server_args.disable_cuda_graph:
            server_args.enable_torch_compile = True

    def finalize_server_args(self, server_args: Any) -> None:
        _finalised.add()
        server_args.max_running_requests = RUNNING_REQUESTS

    def stub_modules(self) -> Mapping[str, types.ModuleType | None]:
        return {ABSENT: None}

    def init_backend(self) -> None:
        from sglang_platform.example_oot import kernels, op_calls, ops

        _started.add()
        kernels.backend()
        op_calls.register(ops.FORWARDS, DISPATCH_KEY)

    def post_load_model(self, model: torch.nn.Module) -> None:
        _loaded.add()

    def is_pin_memory_available(self, device: Any = None) -> bool:
        _pinned.add()
        return False

    def get_quantization_config(self, quantization: str) -> type | None:
        _quantisation.add()
        return None

    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        _group_device.add()
        return torch.device("cpu")

    def get_default_attention_backend(self) -> str:
        return "host_matrix_probe"

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {"host_matrix_probe": ExampleOOTAttentionBackend}

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool

        return {"mha": ExampleOOTMHAPool, "mla": ProbeMLAPool, "dsa": ProbeDSAPool}[kind]

    def get_paged_allocator_cls(self) -> type | None:
        from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator

        return ExampleOOTPagedAllocator

    def get_graph_runner_cls(self) -> type | None:
        from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner

        return ExampleOOTGraphRunner

    def get_dispatch_key_name(self) -> str:
        return DISPATCH_KEY

    def get_compile_backend(self, mode: str | None = None) -> str:
        return "eager"

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        return False
