"""Reads a body, statement by statement, for the names it binds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from sglang_platform.devtools.source import namespaces
from sglang_platform.devtools.source.conditions import (
    TRY,
    TYPE_ALIAS,
    Where,
    decided,
    guards_imports,
    handles_import_errors,
    suppresses,
)
from sglang_platform.devtools.source.scope import (
    Binding,
    ClassScope,
    DefinitionNode,
    Scope,
    Star,
    imported_module,
    is_accessory,
)
from sglang_platform.devtools.source.values import Unreadable, evaluate, no_attribute, rounds

__all__ = ["read_body"]


def read_body(body: Iterable[ast.stmt], scope: Scope) -> None:
    """Fill `scope` with the names that the body of its module or class binds."""
    _Reader(scope).block(body, Where(), {})


class _Reader:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._asked: set[str] = set()

    def block(self, body: Iterable[ast.stmt], where: Where, values: Mapping[str, Any]) -> None:
        """Read statements. `values`: the variables of the enclosing loops."""
        for node in body:
            self._statement(node, where, values)

    def _statement(self, node: ast.stmt, where: Where, values: Mapping[str, Any]) -> None:
        for part in namespaces.expressions(node):
            self._effects(part, where, values)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, where)
            case ast.ClassDef():
                self._bind(node.name, where, node)
            case ast.Import():
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._bind(name, where, None, (alias.name if alias.asname else name, None))
            case ast.ImportFrom():
                self._from(node, where)
            case ast.Assign():
                for target in node.targets:
                    self._target(target, node.value, where, values)
            case ast.AnnAssign(value=ast.expr()):  # a bare annotation binds nothing
                self._target(node.target, node.value, where, values)
            case ast.AugAssign():
                self._added_to(node, where, values)
            case ast.Delete():
                self._deleted(node, where)
            case ast.If():
                self._if(node, where, values)
            case ast.For() | ast.AsyncFor():
                self._for(node, where, values)
            case ast.While():
                self.block([*node.body, *node.orelse], where._replace(surely=False), values)
            case ast.With() | ast.AsyncWith():
                self._with(node, where, values)
            case ast.Match():
                self._match(node, where, values)
            case _ if isinstance(node, TRY):
                self._try(node, where, values)
            case _ if isinstance(node, TYPE_ALIAS):
                self._bind(node.name.id, where, None)

    def _bind(
        self,
        name: str,
        where: Where,
        node: DefinitionNode | None,
        origin: tuple[str, str | None] | None = None,
    ) -> None:
        known = self._scope.names.get(name)
        if known and is_accessory(node):
            return
        binding = Binding(node, origin, where.guarded, where.fallback)
        if known is None or where.surely:
            self._scope.names[name] = [binding]
        elif binding not in known:
            known.append(binding)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, where: Where) -> None:
        self._bind(node.name, where, node)
        if isinstance(self._scope, ClassScope):
            return
        for name in namespaces.globals_set_in(node):
            self._scope.maybe.setdefault(name, f"a call of {node.name}() binds it")
        if node.name != "__getattr__" and namespaces.makes_names_in(node):
            self._scope.is_open = True

    def _from(self, node: ast.ImportFrom, where: Where) -> None:
        module = imported_module(node, self._scope.package)
        for alias in node.names:
            if alias.name == "*":
                self._scope.stars.append(Star(module, where.guarded))
            else:
                self._bind(alias.asname or alias.name, where, None, (module, alias.name))

    def _target(
        self, target: ast.expr, value: ast.expr | None, where: Where, values: Mapping[str, Any]
    ) -> None:
        match target:
            case ast.Name(id="__all__"):
                self._scope.exports, self._scope.exports_unread = [], False
                self._exports_more(value, values)
                self._bind("__all__", where, value)
            case ast.Name(id=name) if self._is_remade(name, value):
                self._scope.remade.add(name)
            case ast.Name(id=name):
                self._bind(name, where, value)
            case ast.Starred(value=inner):
                self._target(inner, None, where, values)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                given: list[ast.expr | None] = [None] * len(parts)
                same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts)
                if same and not any(isinstance(one, ast.Starred) for one in (*parts, *value.elts)):  # type: ignore[union-attr]
                    given = list(value.elts)  # type: ignore[union-attr]
                for part, one in zip(parts, given, strict=True):
                    self._target(part, one, where, values)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                self._scope.set_on.setdefault(owner, set()).add(name)
            case ast.Subscript(value=table, slice=key) if namespaces.is_namespace(table):
                self._named(key, where, values, value)
            case _ if namespaces.replaces_module(target):
                self._scope.is_open = True

    def _is_remade(self, name: str, value: ast.expr | None) -> bool:
        """True for a class of this body that is passed to a call and rebound to the result."""
        return (
            isinstance(value, ast.Call)
            and any(isinstance(one, ast.ClassDef) for one in self._scope.nodes(name))
            and any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(value))
        )

    def _named(
        self, key: ast.expr, where: Where, values: Mapping[str, Any], value: ast.expr | None = None
    ) -> None:
        """Bind a name that is given as a string: ``globals()["name"] = value``."""
        name = self._known(key, values)
        if isinstance(name, str):
            self._bind(name, where, value)
        else:
            self._scope.is_open = True

    def _added_to(self, node: ast.AugAssign, where: Where, values: Mapping[str, Any]) -> None:
        if isinstance(node.target, ast.Name) and node.target.id == "__all__":
            self._exports_more(node.value, values)
        else:
            self._target(node.target, None, where, values)

    def _exports_more(self, value: ast.expr | None, values: Mapping[str, Any]) -> None:
        names = self._known(value, values)
        if isinstance(names, list) and self._scope.exports is not None:
            self._scope.exports += [str(one) for one in names]
        else:
            self._scope.exports_unread = True

    def _deleted(self, node: ast.Delete, where: Where) -> None:
        for target in node.targets:
            for one in ast.walk(target) if isinstance(target, ast.Tuple | ast.List) else [target]:
                if isinstance(one, ast.Name) and where.surely:
                    self._scope.names.pop(one.id, None)
                elif isinstance(one, ast.Subscript) and namespaces.is_namespace(one.value):
                    self._scope.is_open = True

    def _if(self, node: ast.If, where: Where, values: Mapping[str, Any]) -> None:
        answer = decided(node.test)
        inside = where if answer is not None else where._replace(surely=False)
        if answer is not False:
            self.block(node.body, inside, values)
        else:
            self._for_type_checkers(node.body)
        if answer is not True:
            self.block(node.orelse, inside, values)

    def _for_type_checkers(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.ImportFrom):
                module = imported_module(node, self._scope.package)
                for alias in node.names:
                    self._scope.for_type_checkers[alias.asname or alias.name] = (module, alias.name)

    def _for(self, node: ast.For | ast.AsyncFor, where: Where, values: Mapping[str, Any]) -> None:
        leaves = any(isinstance(one, ast.Break | ast.Continue) for one in ast.walk(node))
        maybe = where._replace(surely=False)
        try:
            known = list(rounds(node, lambda one: self._value(one, values)))
        except Unreadable:
            self._target(node.target, None, maybe, values)
            unknown = {one.id: _UNKNOWN for one in ast.walk(node.target) if isinstance(one, ast.Name)}
            self.block(node.body, maybe, {**values, **unknown})
        else:
            for variables in known:
                for name in variables:
                    self._bind(name, where, None)
                self.block(node.body, maybe if leaves else where, {**values, **variables})
        self.block(node.orelse, maybe if leaves else where, values)

    def _with(self, node: ast.With | ast.AsyncWith, where: Where, values: Mapping[str, Any]) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._target(item.optional_vars, None, where, values)
        may_end, guards = suppresses(node)
        inside = where._replace(surely=where.surely and not may_end, guarded=where.guarded or guards)
        self.block(node.body, inside, values)

    def _try(self, node: ast.Try, where: Where, values: Mapping[str, Any]) -> None:
        guards = guards_imports(node)
        goes_on = any(not isinstance(one.body[-1], ast.Raise) for one in node.handlers)
        tried = where._replace(surely=where.surely and not goes_on, guarded=where.guarded or guards)
        self.block(node.body, tried, values)
        for handler in node.handlers:
            stands_in = where.fallback or handles_import_errors(handler)
            self.block(handler.body, where._replace(surely=False, fallback=stands_in), values)
        self.block(node.orelse, tried, values)
        self.block(node.finalbody, where, values)

    def _match(self, node: ast.Match, where: Where, values: Mapping[str, Any]) -> None:
        maybe = where._replace(surely=False)
        for case in node.cases:
            for name in namespaces.captured(case.pattern):
                self._bind(name, maybe, None)
            if case.guard is not None:
                self._effects(case.guard, maybe, values)
            self.block(case.body, maybe, values)

    def _effects(self, root: ast.expr, where: Where, values: Mapping[str, Any]) -> None:
        """Bind the names of an expression's `:=`, and of calls that write into a namespace or on a class."""
        for effect in namespaces.effects(root):
            match effect:
                case namespaces.Walrus(name, value):
                    self._bind(name, where._replace(surely=False), value)
                case namespaces.SetName(key):
                    self._named(key, where, values)
                case namespaces.SetAttribute(owner, key):
                    self._set_attribute(owner, key, values)
                case namespaces.Exports(value, is_one):
                    self._exports_more(ast.List([value], ast.Load()) if is_one else value, values)
                case namespaces.Unknown():
                    self._scope.is_open = True

    def _set_attribute(self, owner: str, key: ast.expr, values: Mapping[str, Any]) -> None:
        name = self._known(key, values)
        if isinstance(name, str):
            self._scope.set_on.setdefault(owner, set()).add(name)
        else:
            self._scope.set_unread.add(owner)

    def _known(self, node: ast.expr | None, values: Mapping[str, Any]) -> Any:
        """The value of an expression; None if the source does not show it."""
        try:
            return self._value(node, values)
        except Unreadable:
            return None

    def _value(self, node: ast.expr | None, values: Mapping[str, Any]) -> Any:
        """The value of an expression made of literals, loop variables and the constants of this body."""

        def of_name(name: str) -> Any:
            if name in values:
                if values[name] is _UNKNOWN:
                    raise Unreadable
                return values[name]
            found = self._scope.names.get(name, ())
            if len(found) != 1 or not isinstance(found[0].node, ast.expr) or name in self._asked:
                raise Unreadable
            self._asked.add(name)
            try:
                return self._value(found[0].node, {})
            finally:
                self._asked.discard(name)

        return evaluate(node, of_name, no_attribute)


_UNKNOWN = object()
"""Marks a loop variable whose value is known only at run time."""
