"""The names that a module binds at its top level and in its class bodies, from one pass over its syntax tree.

Every statement counts, also inside conditions, loops and handlers; only `TYPE_CHECKING` blocks are skipped. Code that
may bind names dynamically is not analysed, only detected.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name

from sglang_platform.core.installed.address import Address

__all__ = ["Binding", "BoundNames", "ClassBody", "TopLevel"]

_BINDS_NAMES = re.compile(
    rb"\b(globals|locals|vars)\(\)|\bexec\(|\b__path__\b|\bmodules\s*\["
    rb"|(?<!ogger)[(,=]\s*__name__\b"  # a call given a module's name can write into the module; getLogger() does not
)
_SETS_ON_CLASSES = re.compile(rb"\bsetattr\(\s*[\w.]*(cls|class|type|\b_*[A-Z])|\btype\.__setattr__\(")
_ADD_DUNDERS_ONLY = {
    Address("abc", ("ABCMeta",)),
    Address("dataclasses", ("dataclass",)),
    Address("functools", ("total_ordering",)),
    Address("typing", ("final",)),
    Address("typing", ("runtime_checkable",)),
}
"""Decorators and metaclasses that add only special (dunder) names to a class."""


class BoundNames:
    """The names bound by the statements of a module or class body."""

    def __init__(self, node: ast.Module | ast.ClassDef, package: str) -> None:
        self.names: dict[str, list[Binding]] = {}
        self.has_star = False
        """True if there is a `from module import *`."""
        self.uncertain: set[str] = set()
        """Names that are deleted, or annotated without a value."""
        self.given: set[str] = set()
        """Names passed to calls or iterated over in loops, which may set attributes on a class of that name."""
        self.sets_attributes = False
        """True if there is a `setattr` outside functions."""
        self._package = package
        """The package against which relative imports are resolved."""
        for one in _run_with_body(node.body):
            self._read(one)

    def origin(self, name: tuple[str, ...]) -> Address | None:
        """The address that a dotted name refers to, if its first part is bound by exactly one import."""
        bindings = self.names.get(name[0], ()) if name else ()
        origin = bindings[0] if len(bindings) == 1 else None
        return Address(origin.module, (*origin.path, *name[1:])) if isinstance(origin, Address) else None

    def _bind(self, name: str, binding: Binding = None) -> None:
        self.names.setdefault(name, []).append(binding)

    def _read(self, node: ast.AST) -> None:
        match node:
            case ast.ClassDef():
                self._bind(node.name, ClassBody(node, self, self._package))
            case ast.Import():
                for alias in node.names:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._bind(alias.asname or module, Address(module, ()))
            case ast.ImportFrom():
                module = resolve_name("." * node.level + (node.module or ""), self._package)
                for alias in node.names:
                    if alias.name == "*":
                        self.has_star = True
                    else:
                        self._bind(alias.asname or alias.name, Address(module, (alias.name,)))
            case ast.AnnAssign(value=None, target=ast.Name(id=name)) | ast.Name(id=name, ctx=ast.Del()):
                self.uncertain.add(name)
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                self._bind(name)
            case ast.Call(func=function):
                self.sets_attributes |= isinstance(function, ast.Name) and function.id == "setattr"
                self._give(*node.args, *node.keywords)
            case ast.For(iter=items):
                self._give(items)

    def _give(self, *parts: ast.AST) -> None:
        for part in parts:
            self.given.update(one.id for one in ast.walk(part) if isinstance(one, ast.Name))


class TopLevel(BoundNames):
    """A module's top level. Raises the error of `ast.parse` if this Python cannot parse the text."""

    def __init__(self, name: str, is_package: bool, text: bytes) -> None:
        self.name = name
        self.is_package = is_package
        self._text = text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings
            tree = ast.parse(text)
        super().__init__(tree, name if is_package else name.rpartition(".")[0])
        for names in re.findall(rb"^\s*global +([\w, ]+)", text, re.M):
            self.uncertain.update(re.findall(r"\w+", names.decode()))

    def may_bind_others(self) -> bool:
        """True if code may bind module names in ways that the analysis does not see."""
        return "__getattr__" in self.names or _BINDS_NAMES.search(self._text) is not None

    def may_set(self, attribute: str) -> bool:
        """True if code outside a class body may set this attribute on the class."""
        mentioned = rf"(?<!\bself)\.{attribute}\b(?!\s*\()".encode()  # not a method call
        return (
            self.sets_attributes
            or _SETS_ON_CLASSES.search(self._text) is not None
            or re.search(mentioned, self._text) is not None
        )


class ClassBody(BoundNames):
    """A class body. `around` is the enclosing body."""

    def __init__(self, node: ast.ClassDef, around: BoundNames, package: str) -> None:
        super().__init__(node, package)
        self.around = around
        self.bases = [_dotted(one.value if isinstance(one, ast.Subscript) else one) for one in node.bases]
        """Dotted names of the bases; empty for any other expression."""
        self._name = node.name
        self._makers = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
        self._makers += [word.value for word in node.keywords]

    def may_gain(self, attribute: str) -> bool:
        """True if a decorator, a metaclass, a call or Python itself may add this attribute to the class."""
        return (
            (attribute.startswith("_") and "__" in attribute[1:])  # special, or private: `_Class__name`
            or not {"__slots__", "__init_subclass__"}.isdisjoint(self.names)
            or attribute in self.uncertain
            or self._name in self.around.given
            or any(self.around.origin(_dotted(one)) not in _ADD_DUNDERS_ONLY for one in self._makers)
        )


Binding = Address | ClassBody | None
"""The value bound to a name: an import, a class, or None for anything else."""


def _run_with_body(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node that is executed with the body: none inside a function or an inner class."""
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        yield node
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                waiting += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
            case ast.ClassDef():
                waiting += [*node.decorator_list, *node.bases, *node.keywords]
            case ast.If(test=ast.Name(id=name) | ast.Attribute(attr=name)) if name == "TYPE_CHECKING":
                waiting += node.orelse
            case ast.Lambda():
                pass
            case _:
                waiting += ast.iter_child_nodes(node)


def _dotted(node: ast.expr) -> tuple[str, ...]:
    """``("a", "b")`` of ``a.b``; empty for any other expression."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=name):
            above = _dotted(value)
            return (*above, name) if above else ()
    return ()
