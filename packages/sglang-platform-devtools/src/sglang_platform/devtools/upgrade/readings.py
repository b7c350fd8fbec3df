"""Strings that a release uses: environment variables, flags, entry-point groups, names of parts."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.release import Release

__all__ = ["Reading", "reading_of", "text_at"]


class Reading(NamedTuple):
    """How a release reads an environment variable."""

    place: str
    default: str | None = None
    """The source text: ``EnvBool(False)``."""
    deprecated_for: str | None = None
    """The replacement that the release names; empty for a deprecation without one."""


def reading_of(release: Release, variable: str) -> Reading | None:
    """Where and how the release reads a variable; None if no module does."""
    word = variable.encode()
    declared = re.compile(rb"^[ \t]+" + word + rb"(?::[^=\n]+)?[ \t]*=[ \t]*(\w+\()", re.M)
    spelled = re.compile(rb"""["']""" + word + rb"""["']|\benvs\.""" + word + rb"\b")
    found: Reading | None = None
    for module in release.tree.containing(word):
        text = release.tree.text(module)
        match = declared.search(text)
        if match is not None:
            return _declaration(release, module, variable) or _at(release, module, text, match.start())
        match = spelled.search(text)
        if match is not None:
            told = _deprecation(release, module, variable)
            at = _at(release, module, text, match.start())
            if told is not None:
                return at._replace(deprecated_for=told)
            found = found or at
    return found


def text_at(release: Release, text: str) -> str | None:
    """Where the release contains a string literal; None if nowhere."""
    for quote in ('"', "'"):
        word = f"{quote}{text}{quote}".encode()
        for module in release.tree.containing(word):
            found = release.tree.text(module)
            return _at(release, module, found, found.index(word)).place
    return None


def _declaration(release: Release, module: str, variable: str) -> Reading | None:
    parsed = release.module(module)
    for node in ast.walk(parsed.tree) if parsed is not None else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == variable:
                return Reading(release.place(module, node), ast.unparse(value))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name == variable:
                return Reading(release.place(module, node), ast.unparse(value))
    return None


def _deprecation(release: Release, module: str, variable: str) -> str | None:
    """The replacement of a variable that the release deprecates, or ""; None if it is not deprecated."""
    parsed = release.module(module)
    for node in ast.walk(parsed.tree) if parsed is not None else ():
        match node:
            case ast.Call(func=function, args=args, keywords=words):
                texts = [one.value for one in args if isinstance(one, ast.Constant)]
                if "deprecat" in (dotted(function) or ("",))[-1] and variable in texts[:1]:
                    given = [
                        *texts[1:2],
                        *(one.value.value for one in words if isinstance(one.value, ast.Constant)),
                    ]
                    return str(given[0]) if given and given[0] else ""
                if any(
                    (one.arg or "").startswith("deprecated")
                    and isinstance(one.value, ast.Constant)
                    and one.value.value == variable
                    for one in words
                ):
                    return ""
            case ast.Dict(keys=keys, values=values):  # a table of variables with their deprecations
                for key, value in zip(keys, values, strict=True):
                    if not isinstance(key, ast.Constant) or key.value != variable:
                        continue
                    if (
                        isinstance(value, ast.Call)
                        and "deprecat" in (dotted(value.func) or ("",))[-1].lower()
                    ):
                        news = [one.value for one in value.keywords if one.arg == "replacement"]
                        return str(news[0].value) if news and isinstance(news[0], ast.Constant) else ""
    return None


def _at(release: Release, module: str, text: bytes, offset: int) -> Reading:
    line = text.count(b"\n", 0, offset) + 1
    return Reading(f"{release.place(module, None)}:{line}")
