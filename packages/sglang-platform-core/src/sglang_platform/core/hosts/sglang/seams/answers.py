"""Carrying a platform's answers to where the host does not ask for them; each host version has its own gaps.

Every hook here is required: where its target is gone, the launch stops rather than run without the device's answer.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.seams import communicator, piecewise, server_args
from sglang_platform.core.hosts.sglang.versions import HostFacts, facts

__all__ = ["register_hooks"]

_MODEL_RUNNER = "sglang.srt.model_executor.model_runner:ModelRunner"
_QUANTIZATION = "sglang.srt.layers.quantization:get_quantization_config"


def register_hooks(platform: Any) -> None:
    """Register the hooks that this host version needs for this (re-based) platform."""
    host = facts()
    server_args.register_hooks(platform)
    communicator.register_hooks(platform)
    _answers(platform, host)
    if platform.is_out_of_tree():
        _for_out_of_tree(platform, host)
    else:
        _for_in_tree(platform)


def _answers(platform: Any, host: HostFacts) -> None:
    if not host.asks_pin_memory:

        def pin_memory(original: Any, device: Any = None) -> bool:
            return bool(platform.is_pin_memory_available(device))

        HookRegistry.register("sglang.srt.utils.common:is_pin_memory_available", pin_memory, HookType.AROUND)
    if not host.asks_triton:

        def support_triton(original: Any, backend: str) -> bool:
            return bool(platform.capabilities.supports_triton) and bool(original(backend))

        HookRegistry.register("sglang.srt.utils.common:support_triton", support_triton, HookType.AROUND)
    if not host.asks_post_load_model:

        def post_load_model(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
            platform.post_load_model(runner.model)

        HookRegistry.register(f"{_MODEL_RUNNER}.load_model", post_load_model, HookType.AFTER)
    if not host.builds_rotary_off_device:
        HookRegistry.register(
            "sglang.srt.layers.rotary_embedding.base:RotaryEmbedding.__init__", _without_vllm, HookType.AROUND
        )


def _for_out_of_tree(platform: Any, host: HostFacts) -> None:
    if not host.asks_device:
        _device_of_its_own(platform)
    if not host.asks_distributed_backend:

        def distributed_backend(original: Any, device: str) -> str:
            own = device == platform.device_type
            return str(platform.get_torch_distributed_backend_str() if own else original(device))

        HookRegistry.register(
            "sglang.srt.distributed.parallel_state:get_default_distributed_backend",
            distributed_backend,
            HookType.AROUND,
        )
    if not host.asks_quantization_config:
        HookRegistry.register(_QUANTIZATION, _own_quantization(platform), HookType.AROUND)
    if host.asks_piecewise_backend and platform.capabilities.piecewise_graph:
        piecewise.register_hooks(platform)
    if not host.asks_group_device:

        def bind_device(result: Any, group: Any, *args: Any, **kwargs: Any) -> None:
            import torch

            device = platform.get_group_coordinator_device(group.local_rank)
            if device != group.device:
                group.device = device
                group.device_module = torch.get_device_module(device)
                group.active_ranks = group.active_ranks.to(device)

        # Before the communicator's hook in the order of the onion: it hands the device on.
        HookRegistry.register(
            "sglang.srt.distributed.parallel_state:GroupCoordinator.__init__",
            bind_device,
            HookType.AFTER,
            order=-1,
        )


def _device_of_its_own(platform: Any) -> None:
    """Hosts up to 0.5.12 know a fixed list of device types, and find the default one by asking torch."""

    def get_device(original: Any, device_id: int | None = None) -> str:
        return str(platform.get_device(device_id))

    def allow(config: Any, *args: Any, **kwargs: Any) -> None:
        from sglang.srt.configs import device_config

        if platform.device_type not in device_config.SUPPORTED_DEVICES:
            device_config.SUPPORTED_DEVICES.append(platform.device_type)

    HookRegistry.register("sglang.srt.utils.common:get_device", get_device, HookType.AROUND)
    HookRegistry.register("sglang.srt.configs.device_config:DeviceConfig.__init__", allow, HookType.BEFORE)


def _for_in_tree(platform: Any) -> None:
    """What the host offers out-of-tree platforms only, for one that keeps its CUDA or ROCm identity."""
    state = {"initialised": False}

    def init_backend(runner: Any, *args: Any, **kwargs: Any) -> None:
        if not state["initialised"]:
            state["initialised"] = True
            platform.init_backend()

    HookRegistry.register(f"{_MODEL_RUNNER}.__init__", init_backend, HookType.BEFORE)
    HookRegistry.register(_QUANTIZATION, _own_quantization(platform), HookType.AROUND)


def _own_quantization(platform: Any) -> Any:
    def get_quantization_config(original: Any, quantization: str) -> Any:
        own = platform.get_quantization_config(quantization)
        return original(quantization) if own is None else own

    return get_quantization_config


def _without_vllm(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Hosts up to 0.5.12 import a vLLM kernel for every device that is not their own, and then do not call it."""
    if "vllm" in sys.modules or importlib.util.find_spec("vllm") is not None:
        return original(*args, **kwargs)
    package, ops = ModuleType("vllm"), ModuleType("vllm._custom_ops")
    ops.rotary_embedding = None  # type: ignore[attr-defined]
    package._custom_ops = ops  # type: ignore[attr-defined]
    sys.modules.update({"vllm": package, "vllm._custom_ops": ops})
    try:
        return original(*args, **kwargs)
    finally:
        del sys.modules["vllm"], sys.modules["vllm._custom_ops"]
