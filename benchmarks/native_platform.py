"""The plainest platform with which SGLang 0.5.23 runs on the processor: all parts and kernels are SGLang's own.

SGLang's own CPU platform needs a native package that is not published; without it an out-of-tree platform of device
type `cpu` is the way to SGLang's `torch_native` path.
"""

from __future__ import annotations

from sglang.srt.platforms.interface import SRTPlatform

from sglang_platform.conformance.reference.on_sglang import DirectDevice

NAME = "torch_native"


class NativePlatform(SRTPlatform, DirectDevice):
    """Names SGLang's classes, brings none."""

    device_name = NAME

    def get_default_attention_backend(self) -> str:
        return NAME

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        return MHATokenToKVPool if kind == "mha" else None


def activate() -> str:
    """For the entry point that the benchmark writes."""
    return "native_platform.NativePlatform"
