"""SGLang 0.5.11's names throughout, on the parts of the example device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglang_platform.core import DeviceMixin, PlatformEnum, SRTPlatform, counter

_fp8_asked = counter("older_plugin.supports_fp8.calls")


class OlderDevice(DeviceMixin):
    """The machine's CPU. `get_device` has the parameter it had in 0.5.11."""

    _enum = PlatformEnum.OOT
    device_name = "older_plugin"
    device_type = "cpu"

    def get_device(self, local_rank: int) -> torch.device:
        return torch.device("cpu")

    def set_device(self, device: torch.device) -> None:
        """One device."""

    def get_device_name(self, device_id: int = 0) -> str:
        return "cpu"

    def get_device_uuid(self, device_id: int = 0) -> str:
        return f"older-{device_id}"

    def get_device_capability(self, device_id: int = 0) -> None:
        return None

    def get_device_total_memory(self, device_id: int = 0) -> int:
        return 8 << 30

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        return 7 << 30, 8 << 30

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        return float(1 << 30)


class OlderPlatform(SRTPlatform, OlderDevice):
    def support_cuda_graph(self) -> bool:
        return True

    def support_piecewise_cuda_graph(self) -> bool:
        return False

    def supports_fp8(self) -> bool:
        _fp8_asked.add()
        return True

    def is_pin_memory_available(self) -> bool:
        return False

    def get_mha_kv_pool_cls(self) -> type:
        from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool

        return ExampleOOTMHAPool

    def get_mla_kv_pool_cls(self) -> type:
        raise NotImplementedError("this device has no MLA pool")

    def get_nsa_kv_pool_cls(self) -> type:
        raise NotImplementedError("this device has no NSA pool")

    def get_paged_allocator_cls(self) -> type:
        from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator

        return ExampleOOTPagedAllocator

    def get_graph_runner_cls(self) -> type:
        from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner

        return ExampleOOTGraphRunner

    def get_default_attention_backend(self) -> str:
        return "older_plugin"

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend

        return {"older_plugin": ExampleOOTAttentionBackend}

    def apply_server_args_defaults(self, server_args: Any) -> None:
        server_args.sampling_backend = "pytorch"
        if not server_args.disable_cuda_graph:
            server_args.enable_torch_compile = True

    def get_compile_backend(self, mode: str | None = None) -> str:
        return "eager"
