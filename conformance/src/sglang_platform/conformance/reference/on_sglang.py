"""A platform as a vendor writes one who knows SGLang only: MHA pool, allocator and attention on SGLang's own classes.

It uses nothing of core. The suite must take it with `--host sglang` as it is, and find nothing wrong. Written against
SGLang 0.5.23, which imports this module while it is being imported itself: so the parts, which need more of SGLang,
are imported when they are asked for.
"""

from __future__ import annotations

import torch
from sglang.srt.platforms.device_mixin import DeviceMixin, PlatformEnum
from sglang.srt.platforms.interface import SRTPlatform

__all__ = ["DirectPlatform"]

# Imports inside functions: SGLang imports this file while it is being imported itself, and the parts need the rest of
# SGLang.

NAME = "direct_reference"


class DirectDevice(DeviceMixin):
    """The machine's CPU."""

    _enum = PlatformEnum.OOT
    device_name = NAME
    device_type = "cpu"

    def get_device(self, device_id: int | None = 0) -> torch.device:
        return torch.device("cpu")

    def set_device(self, device: torch.device) -> None:
        """There is one."""

    def get_device_name(self, device_id: int = 0) -> str:
        return NAME

    def get_device_uuid(self, device_id: int = 0) -> str:
        return f"{NAME}-{device_id}"

    def get_device_capability(self, device_id: int = 0) -> None:
        return None

    def get_device_total_memory(self, device_id: int = 0) -> int:
        import os

        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        total = self.get_device_total_memory(device_id)
        return total // 2, total

    def get_current_memory_usage(self, device: torch.device | None = None) -> float:
        return float(self.get_device_total_memory() // 2)


class DirectPlatform(SRTPlatform, DirectDevice):
    """SGLang on it. Parts are imported where they are asked for: their module imports half of SGLang."""

    def get_default_attention_backend(self) -> str:
        return NAME

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        from sglang_platform.conformance.reference.on_sglang_parts import DirectPool

        return DirectPool if kind == "mha" else None

    def get_paged_allocator_cls(self) -> type | None:
        from sglang_platform.conformance.reference.on_sglang_parts import DirectAllocator

        return DirectAllocator

    def init_backend(self) -> None:
        from sglang.srt.layers.attention.attention_registry import register_attention_backend

        from sglang_platform.conformance.reference.on_sglang_parts import DirectAttention

        register_attention_backend(NAME)(DirectAttention)
