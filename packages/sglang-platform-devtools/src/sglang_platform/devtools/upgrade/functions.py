"""The uses of the host in a function or module body: calls, fields, unpacked results."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from sglang_platform.devtools.flow.values import LineReach
from sglang_platform.devtools.host_calls import call_of
from sglang_platform.devtools.source.conditions import blocks, decided
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.coupling import Coupling, SourcePlace
from sglang_platform.devtools.upgrade.given import given_to_method
from sglang_platform.devtools.upgrade.members import Function, HostClass
from sglang_platform.devtools.upgrade.naming import Naming
from sglang_platform.devtools.upgrade.own import OwnClass
from sglang_platform.devtools.upgrade.types import (
    FOREIGN,
    Foreign,
    Instance,
    Method,
    Named,
    TheClass,
    Types,
    Value,
)

__all__ = ["Body"]

_READERS = {"getattr", "hasattr", "setattr", "delattr"}


class Body:
    """Walks one body in order. `names`: the known values of local names."""

    def __init__(
        self,
        module: Module,
        types: Types,
        place: Callable[[Module, ast.AST], SourcePlace],
        own: OwnClass | None = None,
        self_name: str = "",
        reach: Callable[[ast.AST, type[BaseException]], LineReach] = lambda node, error: LineReach(),
    ) -> None:
        self._reach = reach
        self.found: list[Coupling] = []
        self.unread: dict[str, tuple[SourcePlace, int]] = {}
        self._module, self._types, self._place = module, types, place
        self._naming: Naming = types.naming
        self._own, self._self = own, self_name
        self._given: set[str] = set()

    def run(self, body: Iterable[ast.stmt], names: dict[str, Value], given: Iterable[str] = ()) -> None:
        """Read a body. `given`: parameters that the host passes; those of unknown class are listed in `unread`."""
        self._given = set(given)
        self._block(body, names)

    def _block(self, body: Iterable[ast.stmt], names: dict[str, Value]) -> None:
        for node in body:
            self._statement(node, names)

    def _statement(self, node: ast.stmt, names: dict[str, Value]) -> None:
        match node:
            case (
                ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom()
            ):
                return  # read separately
            case ast.Assign(targets=targets, value=value):
                self._expression(value, names)
                for target in targets:
                    self._target(target, value, names)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                if value is not None:
                    self._expression(value, names)
                if isinstance(target, ast.Name):
                    names[target.id] = self._types.annotated(annotation, self._module)
                else:
                    self._expression(target, names)
            case ast.For(target=target, iter=table) | ast.AsyncFor(target=target, iter=table):
                self._expression(table, names)
                over = self.value(table, names)
                inner = (
                    over._replace(depth=over.depth - 1)
                    if isinstance(over, Instance) and over.depth
                    else (FOREIGN if isinstance(over, Foreign) else None)
                )
                self._bind(target, inner, names)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    self._expression(item.context_expr, names)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, None, names)
            case ast.If(test=test):
                self._expression(test, names)
                if decided(test) is False:
                    self._block(node.orelse, names)
                    return
            case _:
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.expr):
                        self._expression(part, names)
        for block in blocks(node):
            self._block(block, names)

    def _bind(self, target: ast.expr, value: Value, names: dict[str, Value]) -> None:
        match target:
            case ast.Name(id=name):
                names[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for one in parts:
                    self._bind(one, FOREIGN if isinstance(value, Foreign) else None, names)
            case ast.Starred(value=inner):
                self._bind(inner, None, names)
            case _:
                self._expression(target, names)

    def _target(self, target: ast.expr, value: ast.expr, names: dict[str, Value]) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                for one, given in zip(target.elts, value.elts, strict=True):
                    self._target(one, given, names)
                return
            self._taken_apart(target, value, names)
            self._bind(target, FOREIGN if isinstance(self.value(value, names), Foreign) else None, names)
            return
        self._bind(target, self.value(value, names), names)

    def _taken_apart(self, target: ast.Tuple | ast.List, value: ast.expr, names: dict[str, Value]) -> None:
        inner = value.value if isinstance(value, ast.Await) else value
        if not isinstance(inner, ast.Call) or any(isinstance(one, ast.Starred) for one in target.elts):
            return
        called, place, count = self._called(inner, names), self._place(self._module, target), len(target.elts)
        match called:
            case Method(owner, name):
                self.found.append(
                    Coupling(
                        "unpack",
                        f"{owner.address}.{name}",
                        place,
                        owner,
                        name,
                        values=count,
                        reach=self._reach(inner, ValueError),
                    )
                )
            case Named(full):
                self.found.append(
                    Coupling("unpack", full, place, values=count, reach=self._reach(inner, ValueError))
                )

    # Expressions

    def _expression(self, node: ast.AST, names: dict[str, Value]) -> None:
        match node:
            case ast.Lambda():
                return self._expression(node.body, {**names, **{one.arg: None for one in node.args.args}})
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = dict(names)
                for one in node.generators:
                    self._expression(one.iter, inner)
                    over = self.value(one.iter, inner)
                    many = over if isinstance(over, Instance) and over.depth else None
                    self._bind(one.target, many and many._replace(depth=many.depth - 1), inner)
                    for test in one.ifs:
                        self._expression(test, inner)
                for part in (
                    getattr(node, "elt", None),
                    getattr(node, "key", None),
                    getattr(node, "value", None),
                ):
                    if part is not None:
                        self._expression(part, inner)
                return None
            case ast.NamedExpr(target=target, value=value):
                self._expression(value, names)
                self._bind(target, self.value(value, names), names)
                return None
            case ast.Call():
                return self._call(node, names)
            case ast.Attribute():
                return self._attribute(node, names)
        for part in ast.iter_child_nodes(node):
            self._expression(part, names)
        return None

    def _call(self, node: ast.Call, names: dict[str, Value]) -> None:
        for part in (*node.args, *(word.value for word in node.keywords)):
            self._expression(part, names)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _READERS and len(node.args) > 1 and name not in names:
            self._by_text(node, name, names)
            return
        called = self._called(node, names)
        self._beneath(node.func, names)
        place = self._place(self._module, node)
        call, reach = call_of(node, str(place)), self._reach(node, TypeError)
        match called:
            case TheClass(owner):
                target = str(owner.address)
                self.found.append(Coupling("construct", target, place, owner, call=call, reach=reach))
            case Method(owner, member):
                target = f"{owner.address}.{member}"
                self.found.append(Coupling("call", target, place, owner, member, call=call, reach=reach))
            case Named(full):
                self.found.append(Coupling("call", full, place, call=call, reach=reach))
            case None if isinstance(node.func, ast.Attribute):
                self._attribute(node.func, names, is_called=True)

    def _beneath(self, func: ast.expr, names: dict[str, Value]) -> None:
        """Read the called expression without its last attribute."""
        if isinstance(func, ast.Attribute):
            self._expression(func.value, names)
        elif not isinstance(func, ast.Name):
            self._expression(func, names)

    def _by_text(self, node: ast.Call, how: str, names: dict[str, Value]) -> None:
        """``getattr(batch, "name", default)``, ``hasattr(batch, "name")``."""
        owner, key = self.value(node.args[0], names), node.args[1]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found = self._class_with(owner, key.value)
            if found is not None:
                reach = self._reach(node, AttributeError)
                if reach.kind != "never" and (how == "hasattr" or (how == "getattr" and len(node.args) > 2)):
                    reach = LineReach("survived")
                target, place = f"{found.address}.{key.value}", self._place(self._module, node)
                self.found.append(Coupling("field", target, place, found, key.value, reach=reach))

    @staticmethod
    def _class_with(value: Value, name: str) -> HostClass | None:
        """The class of an object or class that has the member."""
        match value:
            case Instance(owner, 0) | TheClass(owner) if owner.find(name) is not None:
                return owner
        return None

    def _attribute(self, node: ast.Attribute, names: dict[str, Value], *, is_called: bool = False) -> None:
        if not is_called:
            self._expression(node.value, names)
        value, place = self.value(node.value, names), self._place(self._module, node)
        owner = self._class_with(value, node.attr)
        parts = dotted(node.value)
        is_self = value is None and self._own is not None and parts == (self._self,)
        if is_self and self._own is not None and self._own.find_own(node.attr) is None:
            owner = self._own.inherited(node.attr)
        if owner is not None:
            target, reach = f"{owner.address}.{node.attr}", self._reach(node, AttributeError)
            self.found.append(Coupling("field", target, place, owner, node.attr, reach=reach))
        if value is not None or is_self:
            return
        if parts is not None and parts[0] in self._given:
            first, many = self.unread.get(".".join(parts), (place, 0))
            self.unread[".".join(parts)] = (first, many + 1)

    def _called(self, node: ast.Call, names: dict[str, Value]) -> Value:
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name) if self._own is not None:
                above = self._own.inherited(name)
                mine = any(name in one.own for one in list(self._own.own_line())[1:])
                if above is not None and not mine:
                    return Method(above, name)
                return FOREIGN
        return self.value(node.func, names)

    def value(self, node: ast.expr, names: dict[str, Value]) -> Value:
        """The value of an expression."""
        match node:
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name() | ast.Attribute():
                return self._named(node, names)
            case ast.Call():
                return self._types.of_call(self._called(node, names))
            case ast.Await(value=inner) | ast.NamedExpr(value=inner) | ast.Starred(value=inner):
                return self.value(inner, names)
            case ast.Subscript(value=table):
                found = self.value(table, names)
                if isinstance(found, Instance) and found.depth:
                    return (
                        found if isinstance(node.slice, ast.Slice) else found._replace(depth=found.depth - 1)
                    )
                return FOREIGN if isinstance(found, Foreign) else None
            case ast.IfExp(body=body, orelse=orelse):
                return self.value(body, names) or self.value(orelse, names)
            case ast.BoolOp(values=values):
                return next(
                    (one for one in (self.value(v, names) for v in values) if isinstance(one, Instance)), None
                )
            case ast.Constant() | ast.JoinedStr() | ast.List() | ast.Dict() | ast.Tuple() | ast.Compare():
                return FOREIGN
        return None

    def _named(self, node: ast.Name | ast.Attribute, names: dict[str, Value]) -> Value:
        parts = dotted(node)
        if isinstance(node, ast.Attribute):
            value = self.value(node.value, names)
            owner = self._class_with(value, node.attr)
            if owner is not None:
                return self._types.of_member(owner, node.attr)
            if isinstance(value, Foreign):
                return FOREIGN
            if self._own is not None and parts == (self._self, node.attr):
                return self._of_self(node.attr)
            if isinstance(value, Instance | TheClass | Method):
                return None
        if parts is None or parts[0] in names or parts[0] == self._self:
            return None
        full = self._naming.host_name(self._module, parts)
        if full is not None:
            return self._types.named(full)
        known = self._module.scope.names.get(parts[0])
        first = known[0].node if known and len(known) == 1 else None
        if len(parts) == 1 and isinstance(first, ast.Call):
            return self._types.of_call(self.value(first.func, {}))
        return FOREIGN if self._naming.full_name(self._module, parts) is not None or known else None

    def _of_self(self, name: str) -> Value:
        """The value of ``self.name`` in a plugin class: as assigned by its own methods, else the host's member."""
        assert self._own is not None
        mine = self._own.find_own(name)
        if mine is None:
            above = self._own.inherited(name)
            return self._types.of_member(above, name) if above is not None else None
        if mine.kind in ("method", "property", "class"):
            return FOREIGN
        if mine.annotation is not None:
            return self._types.annotated(mine.annotation, mine.module)
        if mine.inside is not None and mine.value is not None:
            known = self._own_names(mine.inside)
            inner = Body(mine.module, self._types, self._place)
            return inner.value(mine.value, known)
        return None

    def _own_names(self, function: Function) -> dict[str, Value]:
        assert self._own is not None
        return given_to_method(self._own, function, self._types)
