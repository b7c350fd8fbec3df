"""The values of a plugin's names: plain Python values, parts of the host, the plugin's own functions, and unknowns."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from sglang_platform.devtools.source.module import Module

__all__ = [
    "UNKNOWN",
    "UNREAD_WORDS",
    "Bound",
    "External",
    "Fault",
    "Function",
    "HookDecorator",
    "HostObject",
    "LineReach",
    "Namespace",
    "Partial",
    "Path",
    "PluginClass",
    "PluginModule",
    "PluginObject",
    "Raises",
    "Spec",
    "UnknownValue",
    "is_neutral",
    "joined",
    "merged",
    "truth",
    "unknown_of",
]


@dataclass(frozen=True)
class UnknownValue:
    """A value that the source does not show."""

    why: str = ""
    """The expression, if the value may depend on the release of the host."""
    part: HostObject | None = None
    """The part of the host that it is, unless it is None or a stand-in."""


@dataclass(frozen=True)
class HostObject:
    """A module of the host, or a name of one, by its full name."""

    full: str
    node: ast.AST | None = None
    is_module: bool = True
    exists: bool = True
    """False for a name that the release lacks: what follows its failure is read all the same."""


UNKNOWN = UnknownValue()

UNREAD_WORDS = "**"
"""Among the keywords of a call: there are more, which the source does not show."""

_LOOKS_AROUND = {"importlib", "pkgutil", "inspect"}
"""Standard modules that may be asked about the host."""


@dataclass(frozen=True)
class External:
    """A name of Python, of the standard library, or of another distribution."""

    full: str


@dataclass(eq=False)
class Namespace:
    """The names of a module, a class or a call. `parent`: the enclosing scope."""

    module: Module
    names: dict[str, Any] = field(default_factory=dict)
    parent: Namespace | None = None
    own_globals: set[str] = field(default_factory=set)
    """The names that a `global` statement of this function declares."""
    set_elsewhere: frozenset[str] = frozenset()
    """For a module: the names that its functions set by `global`."""


@dataclass(eq=False)
class Function:
    """A function of the plugin, with the scope it was defined in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Namespace
    label: str
    unsure: str = ""
    defaults: dict[str, Any] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """The names that it is bound to."""
    owner: PluginClass | None = None
    kind: str = ""
    """ "staticmethod", "classmethod", "property" or "contextmanager"."""


@dataclass(eq=False)
class PluginClass:
    """A class of the plugin. `bases`: the values of its base classes."""

    node: ast.ClassDef
    scope: Namespace
    bases: list[Any]


@dataclass(eq=False)
class PluginObject:
    """An object of a class of the plugin."""

    cls: PluginClass
    names: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PluginModule:
    name: str


@dataclass(frozen=True)
class Partial:
    """``functools.partial(function, ...)``."""

    function: Any
    args: list[Any]
    words: dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """What `find_spec` gives for a module that exists."""

    name: str


@dataclass(frozen=True)
class Bound:
    """A method that is not called yet; `owner` is a plain value, an External, an PluginObject or a class."""

    owner: Any
    name: Any


@dataclass(frozen=True)
class HookDecorator:
    """``plugin_hook(target, type)``, which registers the function that it is given."""

    node: ast.Call
    args: list[Any]
    words: dict[str, Any]
    on_host: bool


class Fault(NamedTuple):
    """A use of a name that the host lacks."""

    module: Module
    node: ast.AST
    target: str
    why: str
    nearest: tuple[str, ...] = ()


class Raises(Exception):
    """Raised while an expression is evaluated, for an exception that the plugin handles."""

    def __init__(self, error: type[BaseException], fault: Fault | None = None) -> None:
        self.error, self.fault = error, fault


class LineReach(NamedTuple):
    """Whether a line runs, and whether the plugin goes on if it fails. `why`: for `unsure`, the condition."""

    kind: Literal["runs", "unsure", "survived", "never"] = "runs"
    why: str = ""

    @property
    def rank(self) -> int:
        """The order of several reaches of one line: the surest counts."""
        return ("runs", "unsure", "survived", "never").index(self.kind)


class Path(NamedTuple):
    """Where the evaluation is. `unsure`: why it is not known whether this runs."""

    scope: Namespace
    unsure: str = ""
    frames: tuple[Any, ...] = ()
    """The enclosing handlers, those of the callers included; the innermost last."""
    handled: Raises | None = None
    """In a handler: the exception."""
    root: str = ""
    """The function or module from which this is reached."""


def unknown_of(*values: Any, otherwise: str = "") -> UnknownValue:
    """An unknown value that depends on the release if one of `values` does."""
    return UnknownValue(next(filter(None, map(_reason, values)), otherwise))


def _reason(value: Any) -> str:
    match value:
        case UnknownValue(why=why):
            return why
        case External(full=full) if not is_neutral(full):
            return full
        case list() | tuple():
            return next(filter(None, map(_reason, value)), "")
    return ""


def is_neutral(full: str) -> bool:
    """True for a name of Python or torch that does not depend on the release of the host."""
    top = full.partition(".")[0]
    return top == "torch" or (top in sys.stdlib_module_names and top not in _LOOKS_AROUND)


def joined(one: Any, other: Any, why: str = "") -> Any:
    """The value of a name after two branches. `why`: the condition, if it may depend on the release."""
    if one is other or (type(one) is type(other) and same(one, other)):
        return one
    parts = [
        value if isinstance(value, HostObject) else getattr(value, "part", None) for value in (one, other)
    ]
    return replace(unknown_of(one, other, otherwise=why), part=parts[0] or parts[1])


def same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except (TypeError, ValueError, RecursionError):
        return False


def merged(one: dict[str, Any], other: dict[str, Any], why: str = "") -> dict[str, Any]:
    """The names after two branches."""
    missing = UNKNOWN
    return {
        name: joined(one.get(name, missing), other.get(name, missing), why)
        for name in dict.fromkeys((*one, *other))
    }


def truth(value: Any) -> bool | None:
    """The truth of a value; None if it is unknown."""
    match value:
        case UnknownValue():
            return None
        case HostObject(node=node, is_module=is_module):
            return True if is_module or isinstance(node, ast.FunctionDef | ast.ClassDef) else None
        case (
            PluginObject()
            | Bound()
            | External()
            | Function()
            | PluginClass()
            | PluginModule()
            | Spec()
            | Partial()
        ):
            return None if isinstance(value, PluginObject | External) else True
    return bool(value)
