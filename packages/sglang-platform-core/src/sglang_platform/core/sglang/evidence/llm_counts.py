"""Counters of SGLang's own parts in the LLM runtime, and gauges of the KV cache."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.counters import counter
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.evidence.call_counts import count_calls, counts_wanted
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.versions import facts

__all__ = ["GAUGE_METHOD", "host_counters", "register_hooks"]

GAUGE_METHOD = "sglang_platform_update_gauges"
_SCHEDULER = "sglang.srt.managers.scheduler:Scheduler.__init__"

_ATTENTION = ("torch_native_backend:TorchNativeAttnBackend", "intel_amx_backend:IntelAMXAttnBackend",
              "triton_backend:TritonAttnBackend")  # fmt: skip


def host_counters() -> dict[str, tuple[str, ...]]:
    """The counters, each with the functions of the installed SGLang whose calls it counts."""
    host = facts()
    paged = host.paged_allocator.partition(":")[0]
    counted = {
        "host.process.scheduler": (_SCHEDULER,),
        "host.process.detokenizer": ("sglang.srt.managers.detokenizer_manager:DetokenizerManager.__init__",),
        "host.attention.calls": tuple(
            f"sglang.srt.layers.attention.{place}.forward_{mode}"
            for place in _ATTENTION
            for mode in ("extend", "decode")
        ),
        "host.kv_pool.stores": ("sglang.srt.mem_cache.memory_pool:_set_kv_buffer_impl",),
        "host.paged_allocator.calls": (f"{paged}:alloc_extend_naive",),
        "host.token_allocator.calls": (f"{host.token_allocator}.alloc",),
        "host.graph.replays": (
            f"sglang.srt.model_executor.cpu_graph_runner:CPUGraphRunner.{host.graph_calls[1]}",
        ),
    }
    if host.eager_runner is not None:
        counted["host.extend.batches"] = (f"{host.eager_runner}.execute",)
    return counted


def register_hooks() -> None:
    """If counts are enabled, register the counters and offer the gauges."""
    if counts_wanted():
        count_calls(host_counters())
        soft(_SCHEDULER, _offer_gauges, HookType.AFTER, without="the gauges of the KV cache are not offered")


def _offer_gauges(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    """Give the scheduler a method that `Engine.collective_rpc(GAUGE_METHOD)` can call from the main process."""

    def update_gauges() -> None:
        allocator = scheduler.token_to_kv_pool_allocator
        counter("gauge.kv.size").set(allocator.size)
        counter("gauge.kv.available").set(allocator.available_size())
        counter("gauge.kv.evictable").set(scheduler.tree_cache.evictable_size())

    setattr(scheduler, GAUGE_METHOD, update_gauges)
