"""A class rebuilt from its source: the same bases, names and signatures, and none of its code.

What is built is a real class whose methods are empty, so that Python's own resolution order and the contract's own
checks say what they would say of the vendor's class, while nothing of the vendor's is imported or run.
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
from sglang_platform.core.discovery.entry_target import top_level
from sglang_platform.core.inspect.doctor.module_source import ModuleSource, SourceReader, dotted_name

__all__ = ["Shape", "ShapeBuilder", "UnreadableClass"]

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
    """The source does not show the class, or not what it stands on; the text says which."""


class Shape(NamedTuple):
    """A class that was rebuilt."""

    cls: type
    warnings: tuple[str, ...]
    """What the contract's checks warned of when it was created."""

    unknown_bases: tuple[str, ...]
    """Bases of it or of its bases that could not be read, and are left out."""


class ShapeBuilder:
    """Builds shapes, each class once."""

    def __init__(self, reader: SourceReader) -> None:
        self.reader = reader
        self._built: dict[tuple[str, str], type | Exception] = {}
        self._unknown: list[str] = []

    def build(self, module: str, path: str) -> Shape:
        """The class `path` of `module`. Raises UnreadableClass, and ContractError where the contract refuses it."""
        found = self.reader.find_class(module, path)
        if found is None:
            raise UnreadableClass(f"no source of a class {path} was found in {module}")
        self._unknown = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cls = self._class(*found)
        messages = [
            str(warning.message) for warning in caught if issubclass(warning.category, DeprecationWarning)
        ]
        return Shape(cls, tuple(dict.fromkeys(messages)), tuple(self._unknown))

    def _class(self, source: ModuleSource, node: ast.ClassDef) -> type:
        key = (source.name, node.name)
        if key not in self._built:
            self._built[key] = UnreadableClass(f"{node.name} is a base of itself")
            try:
                self._built[key] = self._make(source, node)
            except Exception as error:
                self._built[key] = error
                raise
        made = self._built[key]
        if isinstance(made, Exception):
            raise made
        return made

    def _make(self, source: ModuleSource, node: ast.ClassDef) -> type:
        if f"{source.name}.".startswith(_CONTRACT):
            return getattr(importlib.import_module(source.name), node.name)  # type: ignore[no-any-return]
        bases = tuple(filter(None, (self._base(source, base) for base in node.bases)))
        names = {f"_base_{place}": base for place, base in enumerate(bases)}
        statement = copy.copy(node)
        statement.bases = [ast.Name(name, ast.Load()) for name in names]
        statement.keywords, statement.decorator_list = [], []
        statement.body = [*_body(node, bases), ast.Pass()]
        tree = ast.fix_missing_locations(ast.Module([statement], []))
        namespace: dict[str, Any] = {
            "__name__": source.name,
            "_answer": lambda *args, **kwargs: None,
            "_unread": property(lambda self: None),
            **names,
        }
        try:
            # The vendor's file name makes messages point at the vendor's lines.
            exec(compile(tree, str(source.path), "exec", dont_inherit=True), namespace)
        except TypeError as error:
            if type(error) is not TypeError:
                raise  # a ContractError is one
            raise UnreadableClass(f"{source.name}.{node.name}: {error}") from error
        return namespace[node.name]  # type: ignore[no-any-return]

    def _base(self, source: ModuleSource, node: ast.expr) -> type | None:
        name = dotted_name(node)
        if name is None:
            self._unknown.append(ast.unparse(node))
            return None
        found = self.reader.find_class(source.name, name)
        if found is not None and found[0].name.partition(".")[0] not in sys.stdlib_module_names:
            return self._class(*found)
        first = name.partition(".")[0]
        origin = source.imports.get(first, (first, None))[0].partition(".")[0]
        if origin not in sys.stdlib_module_names and not hasattr(builtins, name):
            self._unknown.append(name)
        return None


def _body(node: ast.ClassDef, bases: tuple[type, ...]) -> list[ast.stmt]:
    body: list[ast.stmt] = []
    known: set[str] = set()
    for statement in top_level(node.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if _is_public(statement.name):
                body += _function(statement)
                known.add(statement.name)
        elif isinstance(statement, ast.ClassDef):
            empty = ast.ClassDef(statement.name, [], [], [ast.Pass()], [])
            if sys.version_info >= (3, 12):
                empty.type_params = []
            body.append(ast.copy_location(empty, statement))
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and _is_public(target.id):
                    value = _value(statement.value, target.id, bases, known)
                    assignment = ast.Assign([ast.Name(target.id, ast.Store())], value)
                    body.append(ast.copy_location(assignment, statement))
                    known.add(target.id)
    return body


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name == "_enum"


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    names = [(dotted_name(_called(one)) or "?").rpartition(".")[2] for one in node.decorator_list]
    if {"setter", "deleter", "getter", "overload"} & set(names):
        return []
    generates = not _PLAIN_CONTEXTS & set(names) and _yields(node)
    plain = bool(_PLAIN_CONTEXTS & set(names)) or isinstance(node, ast.FunctionDef)
    understood = _KEPT | _PROPERTIES | _PLAIN_CONTEXTS | _SAME_SIGNATURE
    function = (ast.FunctionDef if plain else ast.AsyncFunctionDef)(
        name=node.name,
        args=_bare(node.args) if understood.issuperset(names) else _anything(),
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


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _yields(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return False


def _bare(arguments: ast.arguments) -> ast.arguments:
    """The parameters without annotations; a default that is no literal becomes `...`."""
    bare = copy.deepcopy(arguments)
    for argument in (*bare.posonlyargs, *bare.args, *bare.kwonlyargs, bare.vararg, bare.kwarg):
        if argument is not None:
            argument.annotation = None
    bare.defaults = [_literal(default) or ast.Constant(...) for default in bare.defaults]
    bare.kw_defaults = [default and (_literal(default) or ast.Constant(...)) for default in bare.kw_defaults]
    return bare


def _anything() -> ast.arguments:
    """The parameters of a function whose decorator may have changed them."""
    return ast.arguments([], [], ast.arg("args"), [], [], ast.arg("kwargs"), [])


def _value(node: ast.expr, name: str, bases: tuple[type, ...], known: set[str]) -> ast.expr:
    literal = _literal(node)
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
