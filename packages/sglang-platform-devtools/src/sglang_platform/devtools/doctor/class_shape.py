"""A class rebuilt from its source: the same bases, names and signatures, and none of its code.

The result is a real class with empty methods. Python's method resolution order and the contract's checks give the
same results as for the vendor's class, and no vendor code is imported or run.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
import inspect
import sys
import warnings
from typing import Any, NamedTuple

from sglang_platform.core.contract.members import kind_of
from sglang_platform.core.contract.mm import MMPlatform
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.constants import constant_text
from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.scope import ClassScope, is_accessory
from sglang_platform.devtools.source.signatures import bare_parameters, decorators, yields
from sglang_platform.devtools.source.values import dotted

__all__ = ["ClassShape", "ShapeBuilder", "UnreadableClass"]

_CONTRACT = "sglang_platform.core.contract."
_KEPT = {"classmethod", "staticmethod"}
_PROPERTIES = {"property", "cached_property", "abstractproperty"}
_PLAIN_CONTEXTS = {"contextmanager", "asynccontextmanager"}
_SAME_SIGNATURE = {
    *("abstractmethod", "override", "final", "cache", "lru_cache", "deprecated"),
    *("no_grad", "inference_mode", "enable_grad"),
}
_COLLECTIONS = {"frozenset", "set", "tuple", "list", "dict"}


class UnreadableClass(Exception):
    """The source does not show the class or its bases; the message says which."""


class ClassShape(NamedTuple):
    """A class that was rebuilt."""

    cls: type
    warnings: tuple[str, ...]
    """Warnings of the contract's checks when the class was created."""

    unknown_bases: tuple[str, ...]
    """Direct and indirect bases that could not be read, and are left out."""


class ReadClass(NamedTuple):
    """A class in the source."""

    address: Address
    module: Module
    scope: ClassScope


class ShapeBuilder:
    """Builds shapes, each class once."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._built: dict[Address, type | Exception] = {}
        self._unknown: list[str] = []

    def build(self, module: str, path: str) -> ClassShape:
        """The class `path` of `module`. Raises UnreadableClass, and ContractError where the contract refuses it."""
        found = self._find(Address(module, tuple(path.split("."))))
        if found is None:
            raise UnreadableClass(f"no source of a class {path} was found in {module}")
        return self._shape(found)

    def build_statement(self, module: Module, node: ast.ClassDef) -> ClassShape:
        """The class of one statement, which may stand in a function. Raises as `build`."""
        path = (*enclosing(module.tree, node), node.name)
        return self._shape(ReadClass(Address(module.name, path), module, module.class_scope(node)))

    def _shape(self, found: ReadClass) -> ClassShape:
        self._unknown = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cls = self._class(found)
        messages = [
            str(warning.message) for warning in caught if issubclass(warning.category, DeprecationWarning)
        ]
        return ClassShape(cls, tuple(dict.fromkeys(messages)), tuple(self._unknown))

    def _find(self, address: Address) -> ReadClass | None:
        """The class of this name, resolved to its definition."""
        answer = self._lookup.find(address)
        if not isinstance(answer, Definition):
            return None
        module, scope = self._lookup.module_of(answer), self._lookup.class_scope(answer)
        return ReadClass(answer.address, module, scope) if module is not None and scope is not None else None

    def _class(self, found: ReadClass) -> type:
        if found.address not in self._built:
            self._built[found.address] = UnreadableClass(f"{found.scope.node.name} is a base of itself")
            try:
                self._built[found.address] = self._make(found)
            except Exception as error:
                self._built[found.address] = error
                raise
        made = self._built[found.address]
        if isinstance(made, Exception):
            raise made
        return made

    def _make(self, found: ReadClass) -> type:
        module, node = found.module, found.scope.node
        if f"{module.name}.".startswith(_CONTRACT):
            return getattr(importlib.import_module(module.name), node.name)  # type: ignore[no-any-return]
        bases = tuple(filter(None, (self._base(module, base) for base in node.bases)))
        names = {f"_base_{place}": base for place, base in enumerate(bases)}
        statement = copy.copy(node)
        statement.bases = [ast.Name(name, ast.Load()) for name in names]
        statement.keywords, statement.decorator_list = [], []
        statement.body = [*_body(found, bases, self._lookup), ast.Pass()]
        # The contract's checks read which names the methods use, and the methods are empty.
        mentioned = sorted({one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)})
        statement.body += ast.parse(f"def __mentioned__(): {'; '.join(mentioned) or 'pass'}").body
        tree = ast.fix_missing_locations(ast.Module([statement], []))
        namespace: dict[str, Any] = {
            "__name__": module.name,
            "_answer": lambda *args, **kwargs: None,
            "_unread": property(lambda self: None),
            **names,
        }
        try:
            # The vendor's file name makes messages point at the vendor's lines.
            exec(compile(tree, module.path, "exec", dont_inherit=True), namespace)
        except TypeError as error:
            if type(error) is not TypeError:
                raise  # a ContractError is one
            raise UnreadableClass(f"{module.name}.{node.name}: {error}") from error
        cls: type = namespace[node.name]
        cls.__qualname__ = ".".join(found.address.path)
        return cls

    def _base(self, module: Module, node: ast.expr) -> type | None:
        path = dotted(node)
        if path is None:
            self._unknown.append(ast.unparse(node))
            return None
        found = self._find(Address(module.name, path)) or self._imported(module, path)
        if found is not None and not _is_standard(found.module.name):
            return self._class(found)
        imported = [one.origin[0] for one in module.scope.names.get(path[0], ()) if one.origin is not None]
        if not any(map(_is_standard, imported)) and not hasattr(builtins, ".".join(path)):
            self._unknown.append(".".join(path))
        return None

    def _imported(self, module: Module, path: tuple[str, ...]) -> ReadClass | None:
        """A base whose import stands in a function."""
        if path[0] in module.scope.names:
            return None
        full = ImportedNames(module.tree, module.package).meaning(path)
        parts = full.split(".") if full is not None else []
        return self._find(Address(".".join(parts[:-1]), tuple(parts[-1:]))) if len(parts) > 1 else None


def enclosing(tree: ast.Module, node: ast.ClassDef) -> tuple[str, ...]:
    """The prefix of a class's qualified name: all but the last part."""
    waiting: list[tuple[tuple[str, ...], ast.AST]] = [((), tree)]
    while waiting:
        path, one = waiting.pop()
        if one is node:
            return path
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            path = (*path, one.name, "<locals>")
        elif isinstance(one, ast.ClassDef):
            path = (*path, one.name)
        waiting += [(path, inner) for inner in ast.iter_child_nodes(one)]
    return ()


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _body(found: ReadClass, bases: tuple[type, ...], lookup: Lookup) -> list[ast.stmt]:
    """A statement for each public name and each method of the class, names set from outside the class body included."""
    nodes = {name: bindings[-1].node for name, bindings in found.scope.names.items()}
    nodes.update(dict.fromkeys(found.module.scope.set_on.get(found.scope.node.name, ())))
    body: list[ast.stmt] = []
    known: set[str] = set()
    for name, node in sorted(nodes.items(), key=lambda one: getattr(one[1], "lineno", 0)):
        is_method = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not _is_public(name) and (not is_method or name.startswith("__")):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body += _function(node)
        elif isinstance(node, ast.ClassDef):
            empty = ast.ClassDef(node.name, [], [], [ast.Pass()], [])
            if sys.version_info >= (3, 12):
                empty.type_params = []
            body.append(ast.copy_location(empty, node))
        else:
            is_alias = isinstance(node, ast.Name | ast.Attribute)
            text = constant_text(lookup, found.module, node) if is_alias else None
            value = _value(node, name, bases, known) if text is None else ast.Constant(text)
            assignment = ast.Assign([ast.Name(name, ast.Store())], value)
            body.append(ast.copy_location(assignment, node or found.scope.node))
        known.add(name)
    return body


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name == "_enum"


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    if is_accessory(node):
        return []
    names = decorators(node)
    generates = not _PLAIN_CONTEXTS & set(names) and yields(node)
    plain = bool(_PLAIN_CONTEXTS & set(names)) or isinstance(node, ast.FunctionDef)
    understood = _KEPT | _PROPERTIES | _PLAIN_CONTEXTS | _SAME_SIGNATURE
    function = (ast.FunctionDef if plain else ast.AsyncFunctionDef)(
        name=node.name,
        args=bare_parameters(node.args, _default) if understood.issuperset(names) else _anything(),
        body=[ast.Expr(ast.Yield())] if generates else [ast.Pass()],
        decorator_list=[
            ast.Name("property" if name in _PROPERTIES else name, ast.Load())
            for name in names
            if name in _KEPT | _PROPERTIES
        ],
        returns=None,
        type_comment=None,
    )
    if sys.version_info >= (3, 12):
        function.type_params = []
    return [ast.copy_location(function, node)]


def _default(node: ast.expr) -> ast.expr:
    """The default expression; `...` for anything but a literal."""
    return _literal(node) or ast.Constant(...)


def _anything() -> ast.arguments:
    """Parameters that take any call, for a function whose decorator may have changed them."""
    return ast.arguments([], [], ast.arg("args"), [], [], ast.arg("kwargs"), [])


def _value(node: ast.expr | None, name: str, bases: tuple[type, ...], known: set[str]) -> ast.expr:
    literal = _literal(node) if node is not None else None
    if literal is not None:
        return literal
    if isinstance(node, ast.Name) and node.id in known:
        return node  # an alias in the class's own body
    # What cannot be read is taken to be what stands in that place.
    for owner in (*bases, SRTPlatform, MMPlatform):
        try:
            kind = kind_of(inspect.getattr_static(owner, name))
        except AttributeError:
            continue
        return ast.Name(
            "_answer" if kind in ("method", "classmethod", "staticmethod") else "_unread", ast.Load()
        )
    return ast.Constant(None)


def _literal(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COLLECTIONS:
        plain = not node.keywords and len(node.args) < 2
        return node if plain and all(_literal(argument) is not None for argument in node.args) else None
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return node
