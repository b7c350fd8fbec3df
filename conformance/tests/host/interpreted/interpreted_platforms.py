"""The parts of the CUDA and ROCm packages on tensors of the CPU, their kernels in Triton's interpreter.

A process with one of these platforms runs under `TRITON_INTERPRET=1`. CPU tensors stand for an architecture without
fp8 conversions: there the kernels convert by integer code, which the stock interpreter computes right.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import ExitStack
from pkgutil import resolve_name
from typing import Any

from sglang_platform.core import PlatformCapabilities
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.portable.triton.architecture import for_architecture
from sglang_platform.cuda.platform import CudaSRTPlatform
from sglang_platform.example_oot.platform import ExampleOOTPlatform
from sglang_platform.rocm.platform import RocmSRTPlatform

_for_the_workers_life = ExitStack()


class _Interpreted(ExampleOOTPlatform):
    """The example's device as CPU tensors; every part that has kernels is a package's."""

    _package: type[CudaSRTPlatform | RocmSRTPlatform]
    """Whose parts serve."""
    _architecture: str
    """What CPU tensors stand for."""
    _dispatch_key = "interpreted"
    capabilities = PlatformCapabilities(fp8=True)
    """No graphs: the packages' runners capture with `torch.cuda`."""

    def _part(self, name: str) -> Any:
        return resolve_name(self._package._own_parts[name])

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        return {self.device_name: self._part("attention")}

    def get_default_attention_backend(self) -> str:
        return self.device_name

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        pools: dict[str, type] = self._part("kv_pools")
        return pools[kv_pool_kind(kind)]

    def get_paged_allocator_cls(self) -> type | None:
        found: type = self._part("allocator")
        return found

    def get_dispatch_key_name(self) -> str:
        return self._dispatch_key

    def init_backend(self) -> None:
        records = resolve_name(f"{self._package.__module__.rpartition('.')[0]}.kernels.tuning:ARCHITECTURES")
        _for_the_workers_life.enter_context(for_architecture(records[self._architecture]))
        self._part("register_ops")(self._dispatch_key)
        if stands_for := os.environ.get("INTERPRETED_STANDS_FOR"):
            # The host's gate for storing keys with their positions asks for the device by name.
            setattr(importlib.import_module("sglang.srt.models.utils"), f"_is_{stands_for}", True)


class InterpretedCuda(_Interpreted):
    device_name = "interpreted_cuda"
    _package = CudaSRTPlatform
    _architecture = "sm_80"
    supported_kv_dtypes = CudaSRTPlatform.supported_kv_dtypes
    attention_features = CudaSRTPlatform.attention_features


class InterpretedRocm(_Interpreted):
    device_name = "interpreted_rocm"
    _package = RocmSRTPlatform
    _architecture = "gfx90a"
    supported_kv_dtypes = RocmSRTPlatform.supported_kv_dtypes
    attention_features = RocmSRTPlatform.attention_features
