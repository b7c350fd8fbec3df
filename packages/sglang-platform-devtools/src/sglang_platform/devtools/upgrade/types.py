"""Infers the host class of an expression from annotations, constructors and the host's signatures."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.members import Function, HostClass, HostMember
from sglang_platform.devtools.upgrade.naming import Naming, is_hosts
from sglang_platform.devtools.upgrade.release import Release

__all__ = ["FOREIGN", "Foreign", "Instance", "Method", "Named", "TheClass", "Types", "Value"]

_CONTAINERS = {"list", "List", "Sequence", "Iterable", "Iterator", "tuple", "Tuple", "set", "Set", "deque"}
_SEE_THROUGH = {"Optional", "Union", "Annotated", "A", "Final", "ClassVar", "Required"}
_TELLS_NOTHING = {"Any", "object", "Callable", "Type", "type", "dict", "Dict", "Self"}
_ANNOTATED = re.compile(rb"\b([a-z_]\w+): ?\"?(?:Optional\[)?\"?([A-Z]\w+)")
_USUAL = 0.9
_SEEN = 4


class Instance(NamedTuple):
    """An object of a host class; `depth`: the number of containers around it."""

    owner: HostClass
    depth: int = 0


class TheClass(NamedTuple):
    owner: HostClass


class Method(NamedTuple):
    """A member of a class of the host, not called yet."""

    owner: HostClass
    name: str


class Named(NamedTuple):
    """Anything else of the host with a full name: a function, a module, a constant."""

    dotted: str


class Foreign(NamedTuple):
    """A value that is known not to be part of the host."""


FOREIGN = Foreign()
Value = Instance | TheClass | Method | Named | Foreign | None
"""None: unknown from the sources."""


class Types:
    """Type inference for one plugin and the release that it works on."""

    def __init__(self, host: Release, naming: Naming) -> None:
        self.host, self.naming = host, naming
        self._usual: dict[str, str] | None = None

    def named(self, full: str) -> Value:
        """The value of a full name of the host."""
        found = self.host.class_named(full)
        if found is not None:
            return TheClass(found)
        above, _, last = full.rpartition(".")
        holder = self.host.class_named(above) if above else None
        if holder is not None and holder.find(last) is not None:
            return Method(holder, last)
        return Named(full)

    def annotated(self, node: ast.expr | None, module: Module) -> Value:
        """The value that an annotation in a module of the plugin or of the host describes."""
        match node:
            case None:
                return None
            case ast.Constant(value=str(text)):
                try:
                    return self.annotated(ast.parse(text, mode="eval").body, module)
                except SyntaxError:
                    return None
            case ast.Constant():
                return FOREIGN
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._first([left, right], module)
            case ast.Subscript(value=outer, slice=inner):
                word = (dotted(outer) or ("",))[-1]
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                if word in _SEE_THROUGH:
                    return self._first(parts[:1] if word in ("Annotated", "A") else parts, module)
                if word in _CONTAINERS:
                    found = self.annotated(parts[0], module)
                    return found._replace(depth=found.depth + 1) if isinstance(found, Instance) else found
                if word in _TELLS_NOTHING:
                    return None
        name = dotted(node) if isinstance(node, ast.expr) else None
        if name is None or name[-1] in _TELLS_NOTHING:
            return None
        if is_hosts(module.name):
            found_class = self.host.named(module, node)
            return Instance(found_class) if found_class is not None else FOREIGN
        full = self.naming.host_name(module, name)
        if full is None:
            return FOREIGN
        named = self.host.class_named(full)
        return Instance(named) if named is not None else None

    def _first(self, parts: list[ast.expr], module: Module) -> Value:
        found = [self.annotated(one, module) for one in parts]
        return next((one for one in found if isinstance(one, Instance)), None if None in found else FOREIGN)

    def of_member(self, owner: HostClass, name: str) -> Value:
        """The value of a member access."""
        member = owner.find(name)
        if member is None:
            return None
        if member.kind == "method":
            return Method(owner, name)
        if member.annotation is not None:
            return self.annotated(member.annotation, member.module)
        return self._of_value(member)

    def _of_value(self, member: HostMember) -> Value:
        value = member.value
        if isinstance(value, ast.Call):
            found = self.host.named(member.module, value.func)
            return Instance(found) if found is not None else None
        if isinstance(value, ast.Name) and member.inside is not None:
            for one in parameters(member.inside):
                if one.arg == value.id:
                    return self.annotated(one.annotation, member.module) or self.usual(one.arg)
        if isinstance(value, ast.Constant | ast.List | ast.Dict | ast.Tuple | ast.Set) and not (
            isinstance(value, ast.Constant) and value.value is None
        ):
            return FOREIGN
        return None

    def of_call(self, called: Value) -> Value:
        """The value that a call returns."""
        match called:
            case TheClass(owner):
                return Instance(owner)
            case Method(owner, name):
                member = owner.find(name)
                if member is not None and member.function is not None:
                    return self.annotated(member.function.returns, member.module)
            case Named(full):
                function, module = self.function_of(full)
                if function is not None and module is not None:
                    return self.annotated(function.returns, module)
            case Foreign():
                return FOREIGN
        return None

    def usual(self, parameter: str) -> Value:
        """The class in nearly all annotations of parameters of this name in the host."""
        if self._usual is None:
            self._usual = _usual_classes(self.host)
        name = self._usual.get(parameter)
        if name is None:
            return None
        homes = [self.host.class_at(Address(one, (name,))) for one in self.host.tree.defining(name)]
        found = [one for one in homes if one is not None]
        return Instance(found[0]) if len(found) == 1 else None

    def function_of(self, full: str) -> tuple[Function | None, Module | None]:
        """The `def` of a full name of the host, with its module."""
        answer = self.host.find(full)
        if isinstance(answer, Definition) and isinstance(answer.node, Function):
            return answer.node, self.host.lookup.module_of(answer)
        return None, None


def parameters(node: Function | ast.Lambda) -> list[ast.arg]:
    """All parameters but `*args` and `**kwargs`."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _usual_classes(release: Release) -> dict[str, str]:
    seen: dict[str, Counter[str]] = {}
    for module in release.tree.served():
        for name, kind in _ANNOTATED.findall(release.tree.text(module)):
            seen.setdefault(name.decode(), Counter())[kind.decode()] += 1
    usual = {}
    for name, kinds in seen.items():
        kind, count = kinds.most_common(1)[0]
        if count >= _SEEN and count >= _USUAL * kinds.total():
            usual[name] = kind
    return usual
