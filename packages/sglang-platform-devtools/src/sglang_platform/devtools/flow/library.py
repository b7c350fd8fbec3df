"""Calls of builtins and of the standard library on known values, as Python answers them."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from packaging.version import Version, parse

from sglang_platform.devtools.flow.host import HostAnswers
from sglang_platform.devtools.flow.values import (
    External,
    HostObject,
    Partial,
    Spec,
    UnknownValue,
    is_neutral,
    unknown_of,
)
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.signatures import decorators, signature_of

__all__ = ["COMPARISONS", "Missing", "NamesOf", "attribute_of", "call_library", "is_plain"]


class Missing(Exception):
    """The host lacks a name that is asked for without a guard."""

    def __init__(self, target: str, error: type[BaseException], absent: Absent) -> None:
        self.target, self.error, self.absent = target, error, absent


@dataclass(frozen=True)
class NamesOf:
    """``dir(module)``, ``vars(module)``."""

    part: HostObject


COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}

_PURE: dict[str, Callable[..., Any]] = {
    "builtins.len": len, "builtins.int": int, "builtins.str": str, "builtins.bool": bool, "builtins.float": float,
    "builtins.any": any, "builtins.all": all, "builtins.min": min, "builtins.max": max, "builtins.sorted": sorted,
    "builtins.tuple": tuple, "builtins.list": list, "builtins.set": set, "builtins.frozenset": frozenset,
    "builtins.dict": dict, "builtins.reversed": lambda one: list(reversed(one)),
    "builtins.sum": sum, "builtins.callable": callable,
    "builtins.zip": lambda *args: list(zip(*args, strict=False)),
    "builtins.enumerate": lambda one: list(enumerate(one)),
    "packaging.version.Version": Version, "packaging.version.parse": parse, "pkg_resources.parse_version": parse,
    "operator.lt": operator.lt, "operator.le": operator.le, "operator.gt": operator.gt, "operator.ge": operator.ge,
    "operator.eq": operator.eq, "operator.ne": operator.ne,
}  # fmt: skip
_PLAIN = (str, int, float, bool, type(None), tuple, list, set, frozenset, dict, Version)
_METHODS: dict[type, str] = {
    str: "split rsplit partition rpartition strip lstrip rstrip removeprefix removesuffix replace lower upper "
    "startswith endswith join isdigit isnumeric isdecimal find count splitlines isidentifier",
    tuple: "index count",
    list: "index count",
    dict: "get keys values items",
    MappingProxyType: "get keys values items",
}
_ATTRIBUTES: dict[type, str] = {
    Version: "release major minor micro base_version public pre post dev local epoch is_prerelease is_postrelease "
    "is_devrelease",
    inspect.Signature: "parameters",
}


def is_plain(value: Any) -> bool:
    """True for a known value that Python can be asked about."""
    if isinstance(value, UnknownValue | HostObject | External | Spec | Partial):
        return False
    if type(value) in (tuple, list, set, frozenset):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    return isinstance(value, _PLAIN) or type(value) in (inspect.Signature, MappingProxyType)


def attribute_of(owner: Any, name: str) -> Any:
    """An attribute or a bound method of a plain value; None if there is none to know."""
    kind = type(owner)
    known = f"{_ATTRIBUTES.get(kind, '')} {_METHODS.get(kind, '')}".split()
    return getattr(owner, name) if name in known else None


def call_library(host: HostAnswers, full: str, args: list[Any], words: dict[str, Any], package: str) -> Any:
    """The result of a call. Raises Missing for a name that the host lacks, and what Python raises on known values."""
    first = args[0] if args else words.get("name")
    match full:
        case "importlib.import_module" | "importlib.__import__" | "builtins.__import__" if isinstance(
            first, str
        ):
            return _imported(host, full, first, args, words, package)
        case "pkgutil.resolve_name" if isinstance(first, str):
            return _resolved(host, first.replace(":", "."))
        case "builtins.hasattr" if len(args) == 2:
            return _has(host, args[0], args[1])
        case "builtins.getattr" if len(args) in (2, 3):
            return _get(host, *args)
        case "builtins.dir" | "builtins.vars" if isinstance(first, HostObject):
            return NamesOf(first)
        case "builtins.callable" if isinstance(first, HostObject) and isinstance(
            first.node, ast.FunctionDef | ast.ClassDef
        ):
            return True
        case "inspect.signature" if isinstance(first, HostObject):
            return _signature(first)
        case "sys.modules.get" if isinstance(first, str) and host.is_hosts(first):
            found = host.module(first)
            default = args[1] if len(args) > 1 else None
            return (
                default if isinstance(found, Absent) else UnknownValue(f"sys.modules.get({first!r})", found)
            )
        case "importlib.util.find_spec" if isinstance(first, str):
            return _found(host, first)
        case "importlib.metadata.version" | "importlib_metadata.version":
            if first == host.name:
                return host.version
            return UnknownValue() if isinstance(first, str) else unknown_of(first, otherwise=full)
    are_plain = all(map(is_plain, (*args, *words.values())))
    pure = _PURE.get(full)
    if pure is not None and are_plain:
        return pure(*args, **words)
    if is_neutral(full):
        derived = any(_is_derived(host, one) for one in (*args, *words.values()))
        derived = derived or (are_plain and full.startswith("re."))  # a text may be a part of the version
        return unknown_of(*args, *words.values(), otherwise=f"{full}()" if derived else "")
    named = full.removeprefix("builtins.")
    foreign = named == full or are_plain
    return unknown_of(*args, *words.values(), otherwise=f"{named}()" if foreign else "")


def _is_derived(host: HostAnswers, value: Any) -> bool:
    """True for a value that the version of the host is part of."""
    if isinstance(value, list | tuple):
        return any(_is_derived(host, one) for one in value)
    if isinstance(value, str) and isinstance(host.version, str):
        return host.version in value
    return isinstance(value, Version | HostObject)


def _imported(
    host: HostAnswers, full: str, name: str, args: list[Any], words: dict[str, Any], package: str
) -> Any:
    if name.startswith("."):
        above = (args[1] if len(args) > 1 else words.get("package")) or package
        if not isinstance(above, str):
            return unknown_of(above)
        level = len(name) - len(name.lstrip("."))
        parts = above.split(".")
        name = ".".join([*parts[: len(parts) - level + 1], *filter(None, [name.lstrip(".")])])
    if not host.is_hosts(name):
        return External(name)
    found = host.module(name)
    if isinstance(found, Absent):
        raise Missing(name, ModuleNotFoundError, found)
    plain = full.endswith("__import__") and not (words.get("fromlist") or args[3:4])
    return HostObject(host.name) if plain else found


def _resolved(host: HostAnswers, name: str) -> Any:
    if not host.is_hosts(name):
        return External(name)
    first, *rest = name.split(".")
    found: Any = HostObject(first)
    for part in rest:
        if isinstance(found, HostObject):
            answer = host.attribute(found, part)
            if isinstance(answer, Absent):
                raise Missing(name, AttributeError, answer)
            found = answer
    return found


def _has(host: HostAnswers, owner: Any, name: Any) -> Any:
    if isinstance(owner, HostObject) and isinstance(name, str):
        answer = host.attribute(owner, name)
        return (
            False if isinstance(answer, Absent) else True if isinstance(answer, HostObject | str) else answer
        )
    if isinstance(owner, External) and is_neutral(owner.full):
        return UnknownValue()
    if is_plain(owner) and isinstance(name, str):
        return hasattr(owner, name)
    return unknown_of(owner, name, otherwise="hasattr()")


def _get(host: HostAnswers, owner: Any, name: Any, *default: Any) -> Any:
    if isinstance(owner, HostObject) and isinstance(name, str):
        answer = host.attribute(owner, name)
        if not isinstance(answer, Absent):
            return answer
        if default:
            return default[0]
        raise Missing(f"{owner.full}.{name}", AttributeError, answer)
    if isinstance(owner, External) and isinstance(name, str):
        return External(f"{owner.full}.{name}")
    return unknown_of(owner, name, *default, otherwise="getattr()" if default else "")


def _found(host: HostAnswers, name: str) -> Any:
    """``find_spec``: None for a missing module; a missing parent raises."""
    if not host.is_hosts(name) or not host.is_known:
        return UnknownValue()
    above = name.rpartition(".")[0]
    parent = host.module(above) if above else None
    if isinstance(parent, Absent) or (above and not host.is_package(above) and above != host.name):
        absent = parent if isinstance(parent, Absent) else Absent(f"{above} is no package")
        raise Missing(above, ModuleNotFoundError, absent)
    found = host.module(name)
    return None if isinstance(found, Absent) else Spec(name)


def _signature(part: HostObject) -> Any:
    node = part.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not set(decorators(node)) - {
        "staticmethod"
    }:
        return signature_of(node.args)
    return UnknownValue(f"inspect.signature({part.full})")
