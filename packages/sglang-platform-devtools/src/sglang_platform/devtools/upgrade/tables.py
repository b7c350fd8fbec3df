"""Strings that a release uses: environment variables, flags, entry-point groups, tables of names."""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.release import Release

__all__ = ["Reading", "Table", "reading_of", "tables_with", "text_at"]

_WORDS_OF_TABLES = {
    "choices",
    "backend",
    "backends",
    "supported",
    "default",
    "type",
    "cls",
    "name",
    "names",
    "get",
}
_REGISTERS = re.compile(r"^(register|add|_register)_\w+$")


class Reading(NamedTuple):
    """How a release reads an environment variable."""

    place: str
    default: str | None = None
    """The source text: ``EnvBool(False)``."""
    deprecated_for: str | None = None
    """The replacement that the release names; empty for a deprecation without one."""


class Table(NamedTuple):
    """A list of names in the release: a constant, the choices of an argument, the calls of a register function."""

    name: str
    place: str
    names: tuple[str, ...]


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


def tables_with(release: Release, name: str, subject: str) -> list[Table]:
    """The tables that hold a name and match its subject, such as ``attention_backend``; those of equal name first."""
    words = {word for word in subject.lower().split("_") if word not in _WORDS_OF_TABLES}
    found: list[Table] = []
    spelled = tuple(f"{quote}{name}{quote}".encode() for quote in "\"'")
    wanted = re.compile(("|".join(sorted(words)) or re.escape(subject)).encode(), re.I)
    for module in release.tree.served():
        text = release.tree.text(module)
        if any(one in text for one in spelled) and wanted.search(text):
            parsed = release.module(module)
            if parsed is not None:
                found += [one for one in _read_tables(release, parsed) if name in one.names]
    return [one for one in found if _is_of(one.name, subject, words)]


def tables_named(release: Release, name: str) -> list[Table]:
    """All tables of this name."""
    word, found = name.encode(), []
    for module in release.tree.containing(word):
        parsed = release.module(module)
        if parsed is not None:
            found += [one for one in _read_tables(release, parsed) if one.name == name]
    return found


def _is_of(table: str, subject: str, words: set[str]) -> bool:
    parts = set(table.lower().split("_"))
    return table == subject or (bool(words) and words <= parts)


_known: weakref.WeakKeyDictionary[Module, list[Table]] = weakref.WeakKeyDictionary()


def _read_tables(release: Release, module: Module) -> list[Table]:
    """The tables of a module, cached."""
    if module not in _known:
        _known[module] = list(_tables(release, module))
    return _known[module]


def _tables(release: Release, module: Module) -> Iterator[Table]:
    """The literal lists and dicts of a module, choices of arguments, and names passed to register functions."""
    registered: dict[str, tuple[str, list[str]]] = {}
    for node in ast.walk(module.tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                names = _strings(value)
                if isinstance(node, ast.AnnAssign):
                    names += _choices(node.annotation)
                if names:
                    yield Table(name, release.place(module.name, node), tuple(names))
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                names = _choices(annotation)
                if names:
                    yield Table(name, release.place(module.name, node), tuple(names))
            case ast.ClassDef(name=name) if any(
                (dotted(one) or ("",))[-1].endswith("Enum") for one in node.bases
            ):
                values = [
                    one.value.value
                    for one in node.body
                    if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
                ]
                yield Table(name, release.place(module.name, node), tuple(str(one) for one in values))
            case ast.Call(func=function, args=[ast.Constant(value=str(first)), *_]):
                called = (dotted(function) or ("",))[-1]
                if called == "add_argument" and first.startswith("--"):
                    names = [
                        one for word in node.keywords if word.arg == "choices" for one in _strings(word.value)
                    ]
                    if names:
                        yield Table(
                            first[2:].replace("-", "_"), release.place(module.name, node), tuple(names)
                        )
                elif _REGISTERS.match(called):
                    registered.setdefault(called, (release.place(module.name, node), []))[1].append(first)
    for name, (place, texts) in registered.items():
        yield Table(name, place, tuple(texts))


def _choices(annotation: ast.expr) -> list[str]:
    """The names in ``A[str, Arg(choices=[...])]`` and ``Literal["a", "b"]``."""
    found: list[str] = []
    for node in ast.walk(annotation):
        match node:
            case ast.keyword(arg="choices", value=value):
                found += _strings(value)
            case ast.Subscript(value=outer, slice=inner) if (dotted(outer) or ("",))[-1] == "Literal":
                found += _strings(inner) or _strings(ast.Tuple([inner], ast.Load()))
    return found


def _strings(node: ast.expr) -> list[str]:
    """The strings of a literal list, tuple, set, or the keys of a dict; of `Literal[...]`; of lists inside a list."""
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            plain = [
                one.value for one in elements if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            return plain + [
                name for one in elements if isinstance(one, ast.Starred) for name in _strings(one.value)
            ]
        case ast.Dict(keys=keys):
            return [one.value for one in keys if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple" | "list"), args=[inner]):
            return _strings(inner)
        case ast.Subscript(value=outer) if (dotted(outer) or ("",))[-1] == "Literal":
            return _choices(node)
    return []


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
