"""Registers forwards of fused ops, and counts their calls, to prove that an op ran here.

A vendor changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from sglang_platform.core import FusedOp, counter

_calls = counter("example_oot.fused_ops.calls")


def register(forwards: Mapping[type[FusedOp], Callable[..., Any]], dispatch_key: str) -> None:
    """Serve each op by its forward on platforms with this key."""
    for op, forward in forwards.items():
        FusedOp.register_oot_forward(op, _counted(op.class_name(), forward), dispatch_key)


def _counted(name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    served = counter(f"example_oot.fused_ops.{name}")

    @wraps(forward)
    def counted(op: Any, *args: Any, **kwargs: Any) -> Any:
        answer = forward(op, *args, **kwargs)
        if answer is not NotImplemented:
            _calls.add()
            served.add()
        return answer

    return counted
