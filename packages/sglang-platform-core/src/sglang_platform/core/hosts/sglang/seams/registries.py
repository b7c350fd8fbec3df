"""Where core's registries meet SGLang: hooks put in place when the first entry of a registry appears.

What is not used costs nothing: without an entry there is no hook. The places exist under these names in every release
from 0.5.11 to 0.5.23.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from sglang_platform.core.discovery import current
from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.rebase import REBASED_MARK
from sglang_platform.core.hosts.sglang.seams import model_registry
from sglang_platform.core.hosts.sglang.srt.pools import rebase_pool
from sglang_platform.core.hosts.sglang.srt.served_model import register_hooks as note_served_model
from sglang_platform.core.hosts.sglang.srt.served_model import served_model
from sglang_platform.core.hosts.sglang.versions import facts
from sglang_platform.core.registries import coordinators, events, pools, quant

__all__ = ["register_hooks"]

_logger = logging.getLogger(__name__)

_MODEL_RUNNER = "sglang.srt.model_executor.model_runner:ModelRunner"
_SCHEDULER = "sglang.srt.managers.scheduler:Scheduler"
_LAYERS = (
    "sglang.srt.layers.moe.fused_moe_triton.layer:FusedMoE.__init__",
    "sglang.srt.layers.linear:LinearBase.__init__",
)
_HOST_POOL = "sglang.srt.mem_cache.hybrid_cache.hybrid_pool_assembler:build_kv_host_pool"


def register_hooks() -> None:
    """Watch the registries, and hook the host for what is registered, now or later."""
    note_served_model()
    model_registry.register_hooks()
    quant.wrappers.when_added(_once(_wrap_methods))
    if not getattr(type(current.current_platform), REBASED_MARK, False):
        pools.kv_pool_factories.when_added(_once(_pools_without_a_platform))
    pools.host_pool_factories.when_added(_once(_build_host_pools))
    coordinators.coordinators.when_added(_once(_follow_requests))
    events.when_heard(_hook_event)


def _once(hook: Callable[[], None]) -> Callable[[Any], None]:
    done: list[bool] = []

    def first(entry: Any) -> None:
        if not done:
            done.append(True)
            hook()

    return first


def _wrap_methods() -> None:
    def wrap(result: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
        method = getattr(layer, "quant_method", None)
        if method is not None:
            wrapped = quant.wrap(layer, method, served_model().server_args)
            if wrapped is not method:
                layer.quant_method = wrapped

    for target in _LAYERS:
        HookRegistry.register(target, wrap, HookType.AFTER)


def _pools_without_a_platform() -> None:
    """Where the host runs on a platform that core did not re-base, its own pool factory is hooked, if it has one."""
    if not facts().capabilities_struct:
        _logger.warning(
            "KV pool factories are registered, and do nothing: SGLang %s asks only out-of-tree platforms for a pool, "
            "and none of sglang-platform runs; 0.5.22 and later ask every platform",
            facts().version,
        )
        return

    def get_kv_pool_cls(original: Any, platform: Any, *, kind: str) -> Any:
        model = served_model()
        found = (
            pools.resolve_kv_pool_factory(model.model_config, model.server_args)
            if model.model_config
            else None
        )
        cls = found[1](kind) if found else None
        if cls is None:
            return original(platform, kind=kind)
        return rebase_pool(cls, kind, None, triton=platform.capabilities.supports_triton)

    cls = type(current.current_platform)
    HookRegistry.register(
        f"{cls.__module__}:{cls.__qualname__}.get_kv_pool_cls", get_kv_pool_cls, HookType.AROUND
    )


def _build_host_pools() -> None:
    def build(original: Any, *args: Any, **kwargs: Any) -> Any:
        model = served_model()
        found = pools.resolve_host_pool_factory(model.model_config, model.server_args)
        own = partial(original, *args, **kwargs)
        return own() if found is None else found[1](kwargs.get("kv_pool"), own)

    HookRegistry.register(_HOST_POOL, build, HookType.AROUND)


_COORDINATORS = "_sglang_platform_coordinators"


def _follow_requests() -> None:
    def create(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        wanted = coordinators.wanted_coordinators(served_model().model_class)
        made = [coordinators.create_coordinator(name, scheduler=scheduler) for name in wanted]
        setattr(scheduler, _COORDINATORS, made)

    def admit(original: Any, scheduler: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        result, admitted = _admitted(original, scheduler, req, *args, **kwargs)
        if admitted:
            _tell(scheduler, "on_request_admitted", req)
        return result

    def done(_: Any, scheduler: Any, batch: Any, result: Any, *args: Any, **kwargs: Any) -> None:
        _tell(scheduler, "on_batch_done", batch, result)

    HookRegistry.register(f"{_SCHEDULER}.__init__", create, HookType.AFTER)
    HookRegistry.register(f"{_SCHEDULER}._add_request_to_queue", admit, HookType.AROUND)
    HookRegistry.register(f"{_SCHEDULER}.process_batch_result", done, HookType.AFTER)


def _tell(scheduler: Any, event: str, *args: Any) -> None:
    for coordinator in getattr(scheduler, _COORDINATORS, ()):
        method = getattr(coordinator, event, None)
        if method is not None:
            method(*args)


def _admitted(original: Any, scheduler: Any, req: Any, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
    """The host queues a request or aborts it; a retracted one comes back and is not admitted again."""
    again = kwargs.get("is_retracted", bool(args and args[0]))
    before = len(scheduler.waiting_queue)
    result = original(scheduler, req, *args, **kwargs)
    queued = scheduler.disaggregation_mode.value != "null" or len(scheduler.waiting_queue) > before
    return result, queued and not again


def _hook_event(event: str) -> None:
    place = _PLACES.get(event)
    if place is not None:
        target, hook, kind = place
        HookRegistry.register(target, hook, kind)


def _model_loaded(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_model_loaded", runner)


def _forward_begin(runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_forward_begin", forward_batch)


def _forward_end(result: Any, runner: Any, forward_batch: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_forward_end", forward_batch, result)


def _request_admitted(original: Any, scheduler: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
    result, admitted = _admitted(original, scheduler, req, *args, **kwargs)
    if admitted:
        events.dispatch("on_request_admitted", req)
    return result


def _batch_done(_: Any, scheduler: Any, batch: Any, result: Any, *args: Any, **kwargs: Any) -> None:
    events.dispatch("on_batch_done", batch, result)


def _cache_flushed(flushed: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    if flushed:
        events.dispatch("on_cache_flushed")


# `query_run_eagerly` is asked by the graph runner, `query_report` by the process report: neither needs a hook.
_PLACES: dict[str, tuple[str, Callable[..., Any], HookType]] = {
    "on_model_loaded": (f"{_MODEL_RUNNER}.load_model", _model_loaded, HookType.AFTER),
    "on_forward_begin": (f"{_MODEL_RUNNER}.forward", _forward_begin, HookType.BEFORE),
    "on_forward_end": (f"{_MODEL_RUNNER}.forward", _forward_end, HookType.AFTER),
    "on_request_admitted": (f"{_SCHEDULER}._add_request_to_queue", _request_admitted, HookType.AROUND),
    "on_batch_done": (f"{_SCHEDULER}.process_batch_result", _batch_done, HookType.AFTER),
    "on_cache_flushed": (f"{_SCHEDULER}.flush_cache", _cache_flushed, HookType.AFTER),
}
