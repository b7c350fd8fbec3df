"""Parts as SGLang builds them, in a process that has imported it and loaded its plugins.

Read from SGLang 0.5.23: `platforms/__init__.py`, `plugins/__init__.py`, `mem_cache/kv_cache_configurator.py`,
`layers/attention/attention_registry.py`.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sglang_platform.conformance.host.distribution import path_with, write_distribution
from sglang_platform.conformance.parts.base import Parts, on_device
from sglang_platform.conformance.plugin import DeviceAbsent
from sglang_platform.core.discovery import scan
from sglang_platform.core.errors import HostError
from sglang_platform.core.sglang.pools.kinds import host_pool

__all__ = ["SGLangParts"]


class SGLangParts(Parts):
    """See `Parts`."""

    def make_platform(self) -> Any:
        plugin = self.plugin
        if plugin.availability is not None:
            raise DeviceAbsent(f"SGLang would not take the platform: {plugin.availability}")
        os.environ["SGLANG_PLATFORM"] = plugin.name
        if plugin.location is not None:
            _install(plugin.name, plugin.location, self.scratch / "installed")
        import sglang.srt.platforms as host
        from sglang.srt.plugins import load_plugins

        load_plugins()
        platform = host.current_platform
        if type(platform).__module__.partition(".")[0] == "sglang":
            raise HostError(
                f"SGLang did not take the platform {plugin.name!r}: it ended on {type(platform).__qualname__}",
                plugin=plugin.record.origin if plugin.record else None,
                why="its loader logs what a plugin raises and goes on with its own platform",
                fix="see the lines that SGLang printed, and `sglang-platform doctor`",
            )
        self._publish()
        return platform

    def _publish(self) -> None:
        """The parallel state that an engine publishes before it builds pools: one rank."""
        from sglang.srt import runtime_context

        get_parallel = getattr(runtime_context, "get_parallel", None)
        # Releases without it keep nothing there that a pool asks for.
        if get_parallel is not None and hasattr(get_parallel(), "override_permanently"):
            get_parallel().override_permanently(dcp_enabled=False, attn_dcp_size=1, attn_dcp_rank=0)

    def req_to_token_pool(self, size: int, max_context_len: int) -> Any:
        from sglang.srt.mem_cache.memory_pool import ReqToTokenPool

        return ReqToTokenPool(
            size=size,
            max_context_len=max_context_len,
            device=self.device_argument,
            enable_memory_saver=False,
        )

    def allocator(
        self, size: int, page_size: int, *, pool: Any = None, need_sort: bool = False, dtype: Any = None
    ) -> Any:
        import torch
        from sglang.srt.mem_cache import allocator

        fields = {
            "dtype": dtype or torch.bfloat16,
            "device": self.device_argument,
            "kvcache": pool or SimpleNamespace(),
            "need_sort": need_sort,
        }
        if page_size == 1:
            return allocator.TokenToKVPoolAllocator(size, **fields)
        cls: Any = self.platform.get_paged_allocator_cls() or allocator.PagedTokenToKVPoolAllocator
        return cls(size, page_size=page_size, **fields)

    @cached_property
    def _host_backends(self) -> frozenset[str]:
        from sglang.srt.layers.attention import attention_registry

        return frozenset(
            name
            for name, factory in attention_registry.ATTENTION_BACKENDS.items()
            if factory.__module__.startswith("sglang.")
        )

    def attention_factory(self, name: str | None = None) -> Callable[[Any], Any] | None:
        self.init_backend()
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

        if name is None:
            try:
                name = self.platform.get_default_attention_backend()
            except NotImplementedError:
                return None
        if name in self._host_backends:
            return None
        return ATTENTION_BACKENDS.get(name)  # type: ignore[no-any-return]

    def model_runner(self, pool: Any, table: Any, **more: Any) -> Any:
        fields = {
            "token_to_kv_pool": pool,
            "req_to_token_pool": table,
            "device": self.device_argument,
            "dtype": getattr(pool, "dtype", None),
            "kv_cache_dtype": getattr(pool, "dtype", None),
            "page_size": getattr(pool, "page_size", 1),
            "model_config": SimpleNamespace(
                vocab_size=256,
                context_len=table.req_to_token.shape[1],
                is_encoder_decoder=False,
                num_attention_heads=getattr(pool, "head_num", 1),
                head_dim=getattr(pool, "head_dim", None),
                get_num_kv_heads=lambda ranks: getattr(pool, "head_num", 1),
            ),
            "server_args": SimpleNamespace(
                device=self.device_argument, page_size=getattr(pool, "page_size", 1)
            ),
            "sliding_window_size": None,
            "tp_size": 1,
            "tp_rank": 0,
            "is_draft_worker": False,
            "is_hybrid_swa": False,
        }
        return SimpleNamespace(**{**fields, **more})

    def attention_layer(self, **fields: Any) -> Any:
        from sglang.srt.layers.radix_attention import RadixAttention

        wanted = dict(fields)
        scales = {name: wanted.pop(name) for name in ("k_scale", "v_scale") if name in wanted}
        heads, kv_heads = wanted.pop("tp_q_head_num"), wanted.pop("tp_k_head_num")
        wanted.pop("tp_v_head_num", None)
        taken = inspect.signature(RadixAttention).parameters
        later = {name: wanted.pop(name) for name in [*wanted] if name not in taken and name != "qk_head_dim"}
        layer = RadixAttention(heads, wanted.pop("qk_head_dim"), num_kv_heads=kv_heads, **wanted)
        for name, value in later.items():
            setattr(layer, name, value)
        for name, scale in scales.items():
            setattr(layer, name, scale)
            setattr(layer, f"{name}_float", None if scale is None else float(scale))
        return layer

    def linear_layer(self, inputs: int, outputs: int, dtype: Any, quantization: Any, *, bias: bool) -> Any:
        from sglang.srt.layers.linear import ReplicatedLinear

        more = {"bias": bias, "params_dtype": dtype, "quant_config": quantization}
        with self.device:
            return ReplicatedLinear(inputs, outputs, prefix=self.linear_prefix, **more)

    @property
    def encoder_only(self) -> Any:
        from sglang.srt.layers.radix_attention import AttentionType

        return AttentionType.ENCODER_ONLY

    def pool_base(self, kind: str) -> type | None:
        return host_pool(kind)

    def forward_batch(self, mode: str, **fields: Any) -> Any:
        import torch
        from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

        wanted = on_device(fields, self.device)
        extra = wanted.pop("extra", {})
        if wanted.get("input_ids") is None:
            wanted["input_ids"] = torch.zeros_like(wanted["out_cache_loc"])
        if not wanted.get("seq_lens_sum"):
            wanted["seq_lens_sum"] = int(wanted["seq_lens"].sum())
        batch = ForwardBatch(forward_mode=ForwardMode[mode.upper()], **wanted)
        for name, value in extra.items():
            setattr(batch, name, value)
        return batch


def _install(name: str, location: str, folder: Path) -> None:
    """Give a platform without a package an entry point, which is all that SGLang looks at: here and in children."""
    write_distribution(
        folder,
        "sglang-platform-checked",
        {
            "sglang.srt.platforms": f"{name} = sglang_platform_checked:activate",
            "sglang_platform.contract": f"{name} = v1",
        },
    )
    (folder / "sglang_platform_checked.py").write_text(
        "from sglang_platform.core import platform_plugin\n\n\n"
        f"@platform_plugin\ndef activate():\n    return {location!r}\n"
    )
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = path_with(folder)
    os.environ.pop("SGLANG_PLATFORM_PLUGIN", None)
    scan.invalidate()
