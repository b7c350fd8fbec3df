"""Counts what SGLang's own parts do, beside what ours do, to prove which of them served; gauges of the KV cache.

Active only with `SGLANG_PLATFORM_REPORT_DIR` set. Each count is kept by one of our BEFORE hooks, so it is also a
standing test of the hook engine. Targets as of SGLang 0.5.23.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.counters import counter
from sglang_platform.core.hooks.registry import HookRegistry, HookType

__all__ = ["GAUGE_METHOD", "HOST_COUNTERS", "register_hooks"]

GAUGE_METHOD = "sglang_platform_update_gauges"
_SCHEDULER = "sglang.srt.managers.scheduler:Scheduler.__init__"

HOST_COUNTERS: dict[str, tuple[str, ...]] = {
    "host.process.scheduler": (_SCHEDULER,),
    "host.process.detokenizer": ("sglang.srt.managers.detokenizer_manager:DetokenizerManager.__init__",),
    "host.attention.calls": (
        "sglang.srt.layers.attention.torch_native_backend:TorchNativeAttnBackend.forward_extend",
        "sglang.srt.layers.attention.torch_native_backend:TorchNativeAttnBackend.forward_decode",
        "sglang.srt.layers.attention.intel_amx_backend:IntelAMXAttnBackend.forward_extend",
        "sglang.srt.layers.attention.intel_amx_backend:IntelAMXAttnBackend.forward_decode",
        "sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend",
        "sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_decode",
    ),
    "host.kv_pool.stores": ("sglang.srt.mem_cache.memory_pool:_set_kv_buffer_impl",),
    "host.paged_allocator.calls": (
        "sglang.srt.mem_cache.allocator.paged:alloc_extend_naive",
        "sglang.srt.mem_cache.allocator.paged:alloc_decode_naive",
    ),
    "host.token_allocator.calls": ("sglang.srt.mem_cache.allocator.token:TokenToKVPoolAllocator.alloc",),
    "host.graph.replays": ("sglang.srt.model_executor.cpu_graph_runner:CPUGraphRunner.execute",),
    "host.extend.batches": ("sglang.srt.model_executor.runner.eager_runner:EagerRunner.execute",),
}


def register_hooks() -> None:
    """Register one counting hook per target. A target that this version lacks is reported, not an error."""
    for name, targets in HOST_COUNTERS.items():
        count = counter(name)
        for target in targets:
            HookRegistry.register(target, _counting(count.add), HookType.BEFORE, required=False)
    HookRegistry.register(_SCHEDULER, _offer_gauges, HookType.AFTER, required=False)


def _offer_gauges(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    """Give the scheduler a method that `Engine.collective_rpc(GAUGE_METHOD)` can call from the main process."""

    def update_gauges() -> None:
        allocator = scheduler.token_to_kv_pool_allocator
        counter("gauge.kv.size").set(allocator.size)
        counter("gauge.kv.available").set(allocator.available_size())
        counter("gauge.kv.evictable").set(scheduler.tree_cache.evictable_size())

    setattr(scheduler, GAUGE_METHOD, update_gauges)


def _counting(add: Callable[[], None]) -> Callable[..., None]:
    def before(*args: Any, **kwargs: Any) -> None:
        add()

    return before
