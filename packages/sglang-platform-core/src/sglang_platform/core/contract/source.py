"""Finds the `file:line` where a class attribute was defined, for messages. Only used on errors."""

from __future__ import annotations

import inspect
import re
import tokenize
from typing import Any

from sglang_platform.core.correction import is_plugins

__all__ = ["place_in_brackets", "place_of"]

_INNER = ("__wrapped__", "__func__", "fget", "func")
"""Where wrappers, descriptors, cached properties and partials keep their function."""


def place_of(klass: type, name: str) -> tuple[str, int] | None:
    """File and line at which the body of `klass` defines `name`; None where there is no source to point
    at. A function that a plugin's class takes from core, SGLang or torch is placed where it is assigned."""
    function = _innermost(vars(klass).get(name))
    code = getattr(function, "__code__", None)
    borrowed = is_plugins(klass.__module__) and not is_plugins(str(getattr(function, "__module__", "")))
    if code is not None and not borrowed:
        return code.co_filename, code.co_firstlineno
    try:
        path = inspect.getsourcefile(klass)
        lines, first = inspect.getsourcelines(klass)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return None
    assigned = re.compile(rf"\s+((async\s+)?def\s+|class\s+)?{re.escape(name)}\s*[:=(]")
    inside = next((number for number, line in enumerate(lines) if assigned.match(line)), 0)
    return None if path is None else (path, first + inside)


def place_in_brackets(klass: type, name: str) -> str:
    """The same as " (file:line)", to stand behind a sentence; "" where there is no source to point at."""
    place = place_of(klass, name)
    return f" ({place[0]}:{place[1]})" if place else ""


def _innermost(value: Any) -> Any:
    """The function under descriptors, partials and wrappers."""
    for _ in range(16):
        inner = next((name for name in _INNER if hasattr(value, name)), None)
        if inner is None:
            break
        value = getattr(value, inner)
    return value
