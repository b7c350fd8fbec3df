"""The errors that a plugin catches while it decides whether its device is here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sglang_platform.core.correction import package_of
from sglang_platform.core.errors import explain

__all__ = ["swallowed_errors"]


@contextmanager
def swallowed_errors(module: str) -> Iterator[list[str]]:
    """Lists the errors that come up in functions of the module's package during the block, each with its place; those
    that do not leave the block were caught there. Empty under a debugger, whose trace function stays."""
    package = package_of(module)
    errors: dict[int, str] = {}
    found: list[str] = []

    def enter(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if package_of(str(frame.f_globals.get("__name__", ""))) != package:
            return None
        frame.f_trace_lines = False
        return inside

    def inside(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "exception" and not issubclass(argument[0], StopIteration | GeneratorExit):
            _, error, trace = argument
            errors.setdefault(id(error), explain(error.with_traceback(trace)).partition("\n")[0])
        return inside

    if sys.gettrace() is not None:
        yield found
        return
    sys.settrace(enter)
    try:
        yield found
    finally:
        sys.settrace(None)
        found += errors.values()
