"""Matches a known value against the pattern of a `case`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from sglang_platform.devtools.flow.values import External, UnknownValue
from sglang_platform.devtools.source.namespaces import captured

__all__ = ["bindings", "matches"]

_CLASSES = {"int": int, "str": str, "tuple": tuple, "list": list, "float": float}


def matches(pattern: ast.pattern, value: Any, of: Callable[[ast.expr], Any]) -> bool | None:
    """Whether a value matches; None if it is unknown. `of` evaluates the expressions in the pattern."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return matches(inner, value, of)
        case ast.MatchOr(patterns=patterns):
            return _any([matches(one, value, of) for one in patterns])
    if isinstance(value, UnknownValue) or not isinstance(value, str | int | float | tuple | list | None):
        return None
    match pattern:
        case ast.MatchSingleton(value=wanted):
            return value is wanted
        case ast.MatchValue(value=node):
            wanted = of(node)
            return None if isinstance(wanted, UnknownValue | External) else bool(value == wanted)
        case ast.MatchSequence(patterns=patterns):
            return _sequence(patterns, value, of)
        case ast.MatchClass(cls=ast.Name(id=name), patterns=patterns, kwd_patterns=[]) if name in _CLASSES:
            if not isinstance(value, _CLASSES[name]):
                return False
            return _all([matches(one, value, of) for one in patterns])
    return None


def bindings(pattern: ast.pattern, value: Any) -> dict[str, Any]:
    """The captured names with their values, unknown where they are parts of something else."""
    found: dict[str, Any] = dict.fromkeys(captured(pattern), UnknownValue())
    match pattern:
        case ast.MatchAs(name=str(name)):
            found[name] = value
        case ast.MatchSequence(patterns=patterns) if isinstance(value, list | tuple):
            star = next(
                (i for i, one in enumerate(patterns) if isinstance(one, ast.MatchStar)), len(patterns)
            )
            for one, part in zip(patterns[:star], value, strict=False):
                found |= bindings(one, part)
        case ast.MatchClass(patterns=[inner]):
            found |= bindings(inner, value)
    return found


def _sequence(patterns: list[ast.pattern], value: Any, of: Callable[[ast.expr], Any]) -> bool | None:
    if not isinstance(value, list | tuple):
        return False
    star = next((place for place, one in enumerate(patterns) if isinstance(one, ast.MatchStar)), None)
    if star is None:
        if len(value) != len(patterns):
            return False
        return _all([matches(one, part, of) for one, part in zip(patterns, value, strict=True)])
    after = len(patterns) - star - 1
    if len(value) < star + after:
        return False
    first = [matches(one, part, of) for one, part in zip(patterns[:star], value, strict=False)]
    last = zip(patterns[star + 1 :], value[len(value) - after :], strict=True)
    return _all([*first, *(matches(one, part, of) for one, part in last)])


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _any(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False
