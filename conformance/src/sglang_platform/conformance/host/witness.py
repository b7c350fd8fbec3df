"""A general plugin of the suite's own, loaded in every process of a checked engine: it sees which parts do the work.

Installed for one engine only, as a distribution in a folder on PYTHONPATH (`installed`). When the scheduler is built it
writes which classes serve as pool, allocator, attention backend and decode runner, and counts the calls that these
very objects get, and those of fused ops that SGLang's own forwards serve. It knows nothing of the platform, so it sees
a plugin written on SGLang's classes as well.

Names as of SGLang 0.5.23: `Scheduler.token_to_kv_pool_allocator`, `.tp_worker.model_runner`.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host import served_parts, step_profile
from sglang_platform.conformance.host.distribution import path_with, write_distribution
from sglang_platform.core.counters import REPORT_DIR_VARIABLE, counter
from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.ops.fused_op import or_else
from sglang_platform.core.sglang.ops import fused
from sglang_platform.core.sglang.versions import facts

__all__ = ["COUNTED", "HOSTS_OPS", "NAME", "install", "load", "parts_in_use", "served"]

NAME = "sglang_platform_witness"
_SCHEDULER = "sglang.srt.managers.scheduler:Scheduler.__init__"

COUNTED: dict[str, tuple[str, ...]] = {
    "kv_pool": ("set_kv_buffer", "set_mla_kv_buffer", "move_kv_cache"),
    "allocator": ("alloc", "alloc_extend", "alloc_decode", "free"),
    "attention": ("forward_extend", "forward_decode"),
    "graph_runner": ("execute", "replay"),
}
"""The methods counted, as `witness.<part>.<method>`."""

HOSTS_OPS = "witness.hosts_ops."
"""Calls that SGLang's own forward of an op serves are counted as this and the op's class."""

PLATFORMS_OPS = "witness.platforms_ops"
"""Calls that a forward of the platform's serves, whether or not it counts them itself."""


def install(folder: Path, function: str = "load") -> dict[str, str]:
    """Write the distribution into `folder`; the variables with which a process finds it."""
    plugin = f"{NAME} = {__name__}:{function}"
    write_distribution(folder, "sglang-platform-witness", {"sglang.srt.plugins": plugin})
    variables = {"PYTHONPATH": path_with(folder)}
    allowed = os.environ.get("SGLANG_PLUGINS")
    if allowed:
        variables["SGLANG_PLUGINS"] = f"{allowed},{NAME}"
    return variables


def load() -> None:
    """What the entry point names."""
    HookRegistry.register(_SCHEDULER, _look, HookType.AFTER)
    host = facts()
    HookRegistry.register(f"{host.op_class}.{host.op_choice}", _count_own, HookType.AROUND)
    # Core binds the platform's forwards outside of every hook on the choice.
    fused.or_else = _or_else_counting


def load_and_describe() -> None:
    """What the entry point names where it is to be told who served each part (`served`)."""
    HookRegistry.register(_SCHEDULER, _describe, HookType.AFTER)
    load()


def load_and_profile() -> None:
    """What the entry point names where the parts of a step are to be timed as well (`step_profile`)."""
    HookRegistry.register(_SCHEDULER, step_profile.watch, HookType.AFTER)
    host = facts()
    HookRegistry.register(f"{host.op_class}.{host.op_choice}", step_profile.time_op, HookType.AROUND)
    load_and_describe()


def parts_in_use(report_dir: Path) -> list[dict[str, str | None]]:
    """What each scheduler wrote: part to `module.Class`; None where it has none."""
    return [json.loads(path.read_text()) for path in sorted(report_dir.glob("parts-*.json"))]


def served(report_dir: Path) -> list[dict[str, Any]]:
    """What each scheduler described for `served_parts.judge`."""
    return [json.loads(path.read_text()) for path in sorted(report_dir.glob("served-*.json"))]


def _write(what: str, document: dict[str, Any]) -> None:
    folder = Path(os.environ[REPORT_DIR_VARIABLE])
    (folder / f"{what}-{os.getpid()}.json").write_text(json.dumps(document))


def _look(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    runner = scheduler.tp_worker.model_runner
    parts = {
        "kv_pool": runner.token_to_kv_pool,
        "allocator": scheduler.token_to_kv_pool_allocator,
        "attention": runner.attn_backend,
        "graph_runner": runner.decode_cuda_graph_runner,
    }
    for name, part in parts.items():
        for method in COUNTED[name] if part is not None else ():
            if callable(getattr(part, method, None)):
                setattr(part, method, _counting(getattr(part, method), f"witness.{name}.{method}"))
    _write("parts", {name: _name(part) for name, part in parts.items()})


def _describe(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    from sglang.srt.platforms import current_platform

    _write("served", served_parts.describe(current_platform, scheduler))


def _count_own(original: Any, op: Any) -> Any:
    """The host's choice of a forward, inside of the platform's: the platform's hook is registered later."""
    return _counting(original(op), f"{HOSTS_OPS}{type(op).__name__}")


def _or_else_counting(forward: Any, otherwise: Any) -> Any:
    add = counter(PLATFORMS_OPS).add

    def counted(*args: Any, **kwargs: Any) -> Any:
        answer = forward(*args, **kwargs)
        if answer is not NotImplemented:
            add()
        return answer

    return or_else(counted, otherwise)


def _counting(method: Any, name: str) -> Any:
    add = counter(name).add

    @functools.wraps(method)
    def counted(*args: Any, **kwargs: Any) -> Any:
        add()
        return method(*args, **kwargs)

    return counted


def _name(part: Any) -> str | None:
    return None if part is None else f"{type(part).__module__}.{type(part).__qualname__}"
