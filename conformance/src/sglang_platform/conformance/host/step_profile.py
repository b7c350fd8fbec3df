"""Where the time of a step goes, part by part, and which part pays most to replace next.

`watch` and `time_op` run in the scheduler, as parts of the witness: each part's own time is counted in nanoseconds,
without that of the parts it calls, and the device is waited for before and after. `shares` reads the counts.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sglang_platform.conformance.host.served_parts import ServedPart
from sglang_platform.core.counters import counter

__all__ = ["LEAST", "Share", "next_step", "shares", "time_op", "watch"]

LEAST = 0.05
"""The share of a step from which a part is worth naming."""

_PREFIX = "witness.nanoseconds."
_REST = "products and the rest"
_TIMED = {
    "KV pool": ("set_kv_buffer", "set_mla_kv_buffer"),
    "paged allocator": ("alloc", "alloc_extend", "alloc_decode", "free"),
    "attention": ("init_forward_metadata", "forward_extend", "forward_decode"),
    _REST: ("forward",),
    "sampling": ("sample",),
}

_NO_PART = (_REST, "sampling")
"""What no platform takes over."""

_inner: list[float] = []
"""For each timed call in progress, the seconds of the timed calls inside it."""


class Share(NamedTuple):
    """One row. `part`: as in `served_parts`, or the class of a fused op. `share`: of the time of all rows."""

    part: str
    server: str
    share: float


def watch(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    """Time the parts of this scheduler; a hook after its construction."""
    runner = scheduler.tp_worker.model_runner
    parts = {
        "KV pool": runner.token_to_kv_pool,
        "paged allocator": scheduler.token_to_kv_pool_allocator,
        "attention": runner.attn_backend,
        _REST: runner,
        "sampling": runner,
    }
    for part, served in parts.items():
        for method in _TIMED[part]:
            if callable(getattr(served, method, None)):
                setattr(served, method, _timed(getattr(served, method), part))


def time_op(original: Any, op: Any) -> Any:
    """Time SGLang's own forward of an op; a hook around its choice."""
    return _timed(original(op), type(op).__name__)


def _timed(method: Any, part: str) -> Any:
    from sglang.srt.platforms import current_platform  # only SGLang's processes have it

    add = counter(f"{_PREFIX}{part}").add

    @functools.wraps(method)
    def timed(*args: Any, **kwargs: Any) -> Any:
        current_platform.synchronize()
        start = time.perf_counter()
        _inner.append(0.0)
        try:
            return method(*args, **kwargs)
        finally:
            current_platform.synchronize()
            seconds = time.perf_counter() - start
            add(int((seconds - _inner.pop()) * 1e9))
            if _inner:
                _inner[-1] += seconds

    return timed


def shares(rows: Iterable[ServedPart], before: Mapping[str, int], after: Mapping[str, int]) -> list[Share]:
    """Each part's share of the time between two readings of the counters, the largest first."""
    server = {row.part: row.server for row in rows} | {_REST: "torch"}
    spent = {
        name.removeprefix(_PREFIX): count - before.get(name, 0)
        for name, count in after.items()
        if name.startswith(_PREFIX)
    }
    total = sum(spent.values())
    found = [
        Share(part, server.get(part, "SGLang"), time / total) for part, time in spent.items() if time > 0
    ]
    return sorted(found, key=lambda row: -row.share)


def next_step(found: Iterable[Share]) -> str:
    """One sentence: the largest part that the platform could serve and does not."""
    others = (row for row in found if row.part not in _NO_PART and row.server != "the platform")
    largest = next(others, None)
    if largest is None or largest.share < LEAST:
        return f"no part that the platform leaves to others is {LEAST:.0%} of a step"
    return f"{largest.part} is {largest.share:.0%} of a step and {largest.server}'s: replace it next"
