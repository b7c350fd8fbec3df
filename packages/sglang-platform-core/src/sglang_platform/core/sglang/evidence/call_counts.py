"""Counts calls of SGLang's own parts, in addition to ours, to prove which of them served.

Active only if `SGLANG_PLATFORM_REPORT_DIR` is set. BEFORE hooks do the counting, so the counts also test the hook
engine.
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
    """Whether counts and reports are enabled in this process."""
    return bool(os.environ.get(REPORT_DIR_VARIABLE))


def count_calls(counted: Mapping[str, Iterable[str]]) -> None:
    """Count calls of SGLang's functions. `counted` maps counter names to hook targets.

    A target that this release lacks is reported; it is no error.
    """
    for name, targets in counted.items():
        for target in targets:
            soft(target, _counting(counter(name).add), HookType.BEFORE, without=f"{name} counts nothing")


def _counting(add: Callable[[], None]) -> Callable[..., None]:
    def before(*args: Any, **kwargs: Any) -> None:
        add()

    return before
