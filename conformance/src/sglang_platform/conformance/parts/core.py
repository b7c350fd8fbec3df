"""Parts on core's base classes, in a process that never imports SGLang."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

from sglang_platform import core
from sglang_platform.conformance.parts.base import Parts, on_device
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.discovery import current
from sglang_platform.core.errors import PluginFailed
from sglang_platform.devtools.doctor.platform_location import PlatformLocation, platform_locations
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup

__all__ = ["CoreParts"]


class CoreParts(Parts):
    """See `Parts`."""

    def make_platform(self) -> Any:
        plugin = self.plugin
        location = plugin.location
        if location is None and plugin.availability is not None:
            location = self._from_source()
        if location is None:
            os.environ.pop("SGLANG_PLATFORM_PLUGIN", None)
        else:
            os.environ["SGLANG_PLATFORM_PLUGIN"] = f"{plugin.name}={location}"
        os.environ["SGLANG_PLATFORM"] = plugin.name
        current.decide()
        str(current.current_platform)  # touched, so that it is instantiated
        return current.current_platform

    def _from_source(self) -> str:
        """The class of a plugin that declines, since its device is not here."""
        record = self.plugin.record
        assert record is not None
        for found in platform_locations(Lookup(Environment())):
            if isinstance(found, PlatformLocation) and found.origin == record.origin:
                return found.location
        raise PluginFailed(
            f"the device of {record.name!r} is not here, and its source does not spell out where its class is",
            plugin=record.origin,
            why=self.plugin.availability,
            fix='return the location from activate() as a literal, "pkg.mod:Class", or run on the device',
        )

    def req_to_token_pool(self, size: int, max_context_len: int) -> Any:
        return core.ReqToTokenPool(size, max_context_len, self.device_argument, enable_memory_saver=False)

    def allocator(
        self, size: int, page_size: int, *, pool: Any = None, need_sort: bool = False, dtype: Any = None
    ) -> Any:
        import torch

        dtype, device = dtype or torch.bfloat16, self.device_argument
        cls: Any = self.platform.get_paged_allocator_cls()
        if page_size == 1:
            return core.TokenToKVPoolAllocator(size, dtype, device, pool, need_sort)
        if cls is None:
            raise LookupError(f"{self.plugin.name} brings no paged allocator")
        return cls(size, page_size, dtype, device, pool, need_sort)

    def attention_factory(self, name: str | None = None) -> Callable[[Any], Any] | None:
        self.init_backend()
        backends = self.platform.get_attention_backends()
        if not backends:
            return None
        if name is None:
            try:
                name = self.platform.get_default_attention_backend()
            except NotImplementedError:
                name = None
        return backends.get(name) or next(iter(backends.values()))  # type: ignore[no-any-return]

    def model_runner(self, pool: Any, table: Any, **more: Any) -> Any:
        fields = {
            "token_to_kv_pool": pool,
            "req_to_token_pool": table,
            "device": self.device_argument,
            "dtype": getattr(pool, "dtype", None),
            "kv_cache_dtype": getattr(pool, "dtype", None),
            "page_size": getattr(pool, "page_size", 1),
            "model_config": SimpleNamespace(vocab_size=256),
            "server_args": None,
        }
        return SimpleNamespace(**{**fields, **more})

    def attention_layer(self, **fields: Any) -> Any:
        return AttentionLayer(**fields)

    @property
    def encoder_only(self) -> Any:
        return enum.Enum("AttentionType", {"ENCODER_ONLY": "encoder_only"}).ENCODER_ONLY

    def pool_base(self, kind: str) -> type | None:
        return resolve_name(KINDS[kind].base)  # type: ignore[no-any-return]

    def forward_batch(self, mode: str, **fields: Any) -> Any:
        return ForwardBatch(forward_mode=ForwardMode[mode.upper()], **on_device(fields, self.device))
