"""Hooks SGLang's device queries that have a fixed list of devices, so that the platform answers them."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import required, soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_PLACE = "sglang.srt.utils.common"
_NO_DEVICE = "SGLang does not know the platform's device"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Take these from the platform: pinned memory and Triton; out of tree also the device, its name, its type and its
    distributed backend."""

    def is_pin_memory_available(original: Any, device: Any = None) -> bool:
        return bool(platform.is_pin_memory_available(device))

    def support_triton(original: Any, backend: str) -> bool:
        return bool(platform.capabilities.supports_triton) and bool(original(backend))

    if not host.asks_pin_memory:
        required(
            f"{_PLACE}:is_pin_memory_available", is_pin_memory_available, HookType.AROUND,
            without="SGLang pins memory on a device that may not have any",
        )  # fmt: skip
    if not host.asks_triton:
        required(
            f"{_PLACE}:support_triton", support_triton, HookType.AROUND,
            without="SGLang launches Triton kernels on a device that may not run them",
        )  # fmt: skip
    if platform.is_out_of_tree():
        _out_of_tree(platform, host)


def _out_of_tree(platform: Any, host: HostFacts) -> None:
    def get_device_name(device_id: int = 0) -> str:
        return str(platform.get_device_name(device_id))

    def get_device(original: Any, device_id: int | None = None) -> str:
        return str(platform.get_device(device_id))

    def allow(config: Any, *args: Any, **kwargs: Any) -> None:
        from sglang.srt.configs import device_config

        if platform.device_type not in device_config.SUPPORTED_DEVICES:
            device_config.SUPPORTED_DEVICES.append(platform.device_type)

    def get_default_distributed_backend(original: Any, device: str) -> str:
        own = device == platform.device_type
        return str(platform.get_torch_distributed_backend_str() if own else original(device))

    compiler = platform.get_compile_backend()
    if compiler != "inductor":

        def compile_otherwise(original: Any, inductor: Any, model: Any, inputs: Any, **options: Any) -> Any:
            from torch._dynamo import lookup_backend

            return lookup_backend(compiler)(model, inputs)

        # SGLang compiles small functions where it defines them, with inductor unless told otherwise.
        soft(
            "torch:_TorchCompileInductorWrapper.__call__", compile_otherwise, HookType.AROUND,
            without="functions that SGLang compiles with torch's inductor end a worker",
        )  # fmt: skip
    # SGLang's returns None, but its callers look up tuning tables by the name.
    soft(
        f"{_PLACE}:get_device_name", get_device_name, HookType.REPLACE,
        without="SGLang finds no tuning table by the device's name",
    )  # fmt: skip
    if not host.asks_device:
        required(f"{_PLACE}:get_device", get_device, HookType.AROUND, without=_NO_DEVICE)
        target = "sglang.srt.configs.device_config:DeviceConfig.__init__"
        required(target, allow, HookType.BEFORE, without=_NO_DEVICE)
    if not host.asks_distributed_backend:
        target = "sglang.srt.distributed.parallel_state:get_default_distributed_backend"
        required(target, get_default_distributed_backend, HookType.AROUND, without=_NO_DEVICE)
