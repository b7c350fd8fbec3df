"""The members of a host class: methods, fields, and attributes that its methods set on instances."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.conditions import blocks
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.signatures import decorators, signature_of

__all__ = ["Function", "HostClass", "HostMember", "members_of"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

_RECORDS = {"dataclass", "dataclasses", "Struct", "NamedTuple", "BaseModel", "define"}


class HostMember(NamedTuple):
    """One name of a class. `node` is its `def`, or the statement that sets it."""

    name: str
    kind: Literal["method", "property", "field", "attribute", "class"]
    node: ast.AST
    owner: Address
    module: Module
    annotation: ast.expr | None = None
    value: ast.expr | None = None
    inside: Function | None = None
    """For an instance attribute: the method that sets it."""

    @property
    def function(self) -> Function | None:
        return self.node if isinstance(self.node, Function) else None


@dataclass(eq=False)
class HostClass:
    """A class of one release. `own`: the members that its body and its methods define, by name."""

    address: Address
    module: Module
    node: ast.ClassDef
    own: dict[str, HostMember]
    bases: list[HostClass] = field(default_factory=list)
    parts: list[HostClass] = field(default_factory=list)
    """Classes whose fields it includes without being a subclass."""
    has_unread_base: bool = False
    is_remade: bool = False

    @property
    def name(self) -> str:
        return self.address.path[-1]

    def line(self) -> Iterator[HostClass]:
        """The class and its bases in approximate method resolution order: the last mention of a base counts."""
        found = [self]
        for base in (*self.bases, *self.parts):
            for one in base.line():
                if one in found:
                    found.remove(one)
                found.append(one)
        return iter(found)

    def find(self, name: str) -> HostMember | None:
        """The member of this name, possibly inherited; class-level members come before instance attributes."""
        found = [one.own[name] for one in self.line() if name in one.own]
        return next((one for one in found if one.inside is None), found[0] if found else None)

    def names(self) -> dict[str, HostMember]:
        return {name: member for one in reversed(list(self.line())) for name, member in one.own.items()}

    @property
    def is_record(self) -> bool:
        """True if its constructor is generated from its fields."""
        if self.is_remade or any(_RECORDS & set(decorators(one.node)) for one in self.line()):
            return True
        return any((_last(base) in _RECORDS) for one in self.line() for base in one.node.bases)

    def constructor(self) -> inspect.Signature | None:
        """The signature of the constructor, without `self`; None if the source does not show it."""
        initial = next((one.own["__init__"] for one in self.line() if "__init__" in one.own), None)
        if self.is_record and (initial is None or initial.owner != self.address):
            return self._of_fields()
        if initial is not None and initial.function is not None:
            return signature_of(initial.function.args, 1)
        if self.has_unread_base or any(one.has_unread_base for one in self.line()):
            return None
        return inspect.Signature()

    def constructor_node(self) -> ast.AST:
        initial = self.find("__init__")
        return initial.node if initial is not None and not self.is_record else self.node

    def _of_fields(self) -> inspect.Signature:
        kinds = inspect.Parameter
        found: dict[str, inspect.Parameter] = {}
        for one in reversed(list(self.line())):
            for member in one.own.values():
                if member.kind != "field" or _is_class_variable(member):
                    continue
                default = _default(member)
                if default is not None and default is _LEFT_OUT:
                    continue
                found[member.name] = kinds(
                    member.name,
                    kinds.KEYWORD_ONLY
                    if _keyword_only(one.node) or self.is_remade
                    else kinds.POSITIONAL_OR_KEYWORD,
                    default=kinds.empty if default is None else None,
                )
        ordered = sorted(
            found.values(),
            key=lambda one: (one.kind, one.kind is kinds.POSITIONAL_OR_KEYWORD and one.default is None),
        )
        return inspect.Signature(ordered)


_LEFT_OUT = ast.Constant("not in __init__")


def members_of(node: ast.ClassDef, address: Address, module: Module) -> dict[str, HostMember]:
    """The members of one class without its bases: first from its body, then those that methods set on `self`."""
    found: dict[str, HostMember] = {}
    functions: list[Function] = []
    for one in _statements(node.body):
        match one:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions.append(one)
                kinds = set(decorators(one))
                if kinds & {"setter", "getter", "deleter", "overload"} and name in found:
                    continue
                is_property = bool(kinds & {"property", "cached_property"})
                found[name] = HostMember(
                    name, "property" if is_property else "method", one, address, module, one.returns
                )
            case ast.ClassDef(name=name):
                found[name] = HostMember(name, "class", one, address, module)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                found[name] = HostMember(name, "field", one, address, module, annotation, default)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = HostMember(
                            target.id, "attribute", one, address, module, None, value
                        )
    for function in functions:
        for name, statement, written, assigned in _set_on_self(function):
            known = found.get(name)
            if known is None or (
                known.inside is not None and known.annotation is None and written is not None
            ):
                found[name] = HostMember(
                    name, "attribute", statement, address, module, written, assigned, function
                )
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a class body, including those of nested blocks."""
    for one in body:
        yield one
        for inner in blocks(one) if not isinstance(one, Function | ast.ClassDef) else ():
            yield from _statements(inner)


def _set_on_self(
    function: Function,
) -> Iterator[tuple[str, ast.AST, ast.expr | None, ast.expr | None]]:
    parameters = [*function.args.posonlyargs, *function.args.args]
    if not parameters:
        return
    self_name = parameters[0].arg
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr | None, ast.expr | None]] = []
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Tuple | ast.List):
                        parts = value.elts if isinstance(value, ast.Tuple) else []
                        same = len(parts) == len(target.elts)
                        pairs += [
                            (one, None, parts[i] if same else None) for i, one in enumerate(target.elts)
                        ]
                    else:
                        pairs.append((target, None, value))
            case ast.AnnAssign(target=target, annotation=written, value=given):
                pairs.append((target, written, given))
            case ast.AugAssign(target=target):
                pairs.append((target, None, None))
            case ast.For(target=target) | ast.AsyncFor(target=target):
                pairs.append((target, None, None))
            case ast.withitem(optional_vars=ast.expr() as target):
                pairs.append((target, None, None))
        for target, annotation, assigned in pairs:
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and (target.value.id == self_name)
            ):
                yield target.attr, node, annotation, assigned


def _last(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return getattr(node, "attr", getattr(node, "id", ""))


def _is_class_variable(member: HostMember) -> bool:
    return member.annotation is not None and "ClassVar" in ast.unparse(member.annotation)


def _default(member: HostMember) -> ast.expr | None:
    """The default of a field; _LEFT_OUT for ``field(init=False)``."""
    value = member.value
    if isinstance(value, ast.Call) and _last(value.func) in ("field", "Field"):
        words = {word.arg: word.value for word in value.keywords}
        init = words.get("init")
        if isinstance(init, ast.Constant) and init.value is False:
            return _LEFT_OUT
        return words.get("default", words.get("default_factory"))
    return value


def _keyword_only(node: ast.ClassDef) -> bool:
    words = [
        *node.keywords,
        *(word for one in node.decorator_list if isinstance(one, ast.Call) for word in one.keywords),
    ]
    return any(
        word.arg == "kw_only" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in words
    )
