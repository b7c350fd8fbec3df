"""Counts what SGLang's own parts do, beside what ours do, to prove which of them served.

Active only with `SGLANG_PLATFORM_REPORT_DIR` set. Each count is kept by one of our BEFORE hooks, so it is also a
standing test of the hook engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sglang_platform.core.counters import REPORT_DIR_VARIABLE, counter
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft

__all__ = ["count_calls", "counts_wanted"]


def counts_wanted() -> bool:
    """Whether this process is to count and to report."""
    return bool(os.environ.get(REPORT_DIR_VARIABLE))


def count_calls(counted: Mapping[str, Iterable[str]]) -> None:
    """Count the calls of functions of the host: by counter, their hook targets.

    A target that this version lacks is reported, not an error.
    """
    for name, targets in counted.items():
        for target in targets:
            soft(target, _counting(counter(name).add), HookType.BEFORE, without=f"{name} counts nothing")


def _counting(add: Callable[[], None]) -> Callable[..., None]:
    def before(*args: Any, **kwargs: Any) -> None:
        add()

    return before
