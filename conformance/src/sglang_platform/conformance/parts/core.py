"""Parts on core's base classes, in a process that never imports SGLang."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sglang_platform.core.discovery import current
from sglang_platform.core.errors import PluginFailed

if TYPE_CHECKING:
    from sglang_platform.conformance.subject import Subject

__all__ = ["CoreParts"]


class CoreParts:
    """See `parts.Parts`."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def platform(self) -> Any:
        subject = self.subject
        location = subject.location
        if location is None and subject.availability is not None:
            location = self._from_source()
        if location is None:
            os.environ.pop("SGLANG_PLATFORM_PLUGIN", None)
        else:
            os.environ["SGLANG_PLATFORM_PLUGIN"] = f"{subject.name}={location}"
        os.environ["SGLANG_PLATFORM"] = subject.name
        current.decide()
        str(current.current_platform)  # touched, so that it is instantiated
        return current.current_platform

    def _from_source(self) -> str:
        """The class of a plugin that declines, since its device is not here."""
        from sglang_platform.core.inspect.doctor.platform_location import PlatformLocation, platform_locations
        from sglang_platform.core.source.environment import Environment
        from sglang_platform.core.source.lookup import Lookup

        record = self.subject.record
        assert record is not None
        for found in platform_locations(Lookup(Environment())):
            if isinstance(found, PlatformLocation) and found.origin == record.origin:
                return found.location
        raise PluginFailed(
            f"the device of {record.name!r} is not here, and its source does not spell out where its class is",
            plugin=record.origin,
            why=self.subject.availability,
            fix='return the location from activate() as a literal, "pkg.mod:Class", or run on the device',
        )

    def request_table(self, size: int, max_context_len: int) -> Any:
        from sglang_platform.core import ReqToTokenPool

        return ReqToTokenPool(size, max_context_len, self.subject.device_argument, enable_memory_saver=False)

    def allocator(self, size: int, page_size: int, pool: Any, need_sort: bool, dtype: Any) -> Any:
        import torch

        from sglang_platform.core import TokenToKVPoolAllocator

        dtype, device = dtype or torch.bfloat16, self.subject.device_argument
        cls: Any = self.subject.allocator_class()
        if page_size == 1:
            return TokenToKVPoolAllocator(size, dtype, device, pool, need_sort)
        if cls is None:
            raise LookupError(f"{self.subject.name} brings no paged allocator")
        return cls(size, page_size, dtype, device, pool, need_sort)

    def attention_factory(self, name: str | None) -> Callable[[Any], Any] | None:
        subject = self.subject
        subject.init_backend()
        backends = subject.platform.get_attention_backends()
        if not backends:
            return None
        if name is None:
            try:
                name = subject.platform.get_default_attention_backend()
            except NotImplementedError:
                name = None
        return backends.get(name) or next(iter(backends.values()))  # type: ignore[no-any-return]

    def model_runner(self, pool: Any, table: Any, more: Mapping[str, Any]) -> Any:
        fields = {
            "token_to_kv_pool": pool,
            "req_to_token_pool": table,
            "device": self.subject.device_argument,
            "dtype": getattr(pool, "dtype", None),
            "kv_cache_dtype": getattr(pool, "dtype", None),
            "page_size": getattr(pool, "page_size", 1),
            "model_config": SimpleNamespace(vocab_size=256),
            "server_args": None,
        }
        return SimpleNamespace(**{**fields, **more})

    def attention_layer(self, fields: Mapping[str, Any]) -> Any:
        from sglang_platform.core.attention.batch import AttentionLayer

        return AttentionLayer(**fields)

    def forward_batch(self, mode: str, fields: Mapping[str, Any]) -> Any:
        from sglang_platform.core.attention.batch import ForwardBatch, ForwardMode

        return ForwardBatch(forward_mode=ForwardMode[mode.upper()], **on_device(fields, self.subject.device))


def on_device(fields: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """The fields with their tensors on `device`, except those that the host keeps on the CPU (`*_cpu`)."""
    import torch

    return {
        name: value.to(device) if isinstance(value, torch.Tensor) and not name.endswith("_cpu") else value
        for name, value in fields.items()
    }
