"""How one release writes what a line of a plugin depends on, and whether the line goes with it."""

from __future__ import annotations

import ast
import inspect
import re
from typing import NamedTuple

from sglang_platform.core.installed.address import nearest
from sglang_platform.devtools.host_calls import Call
from sglang_platform.devtools.source.answers import Absent, Definition, Unsure
from sglang_platform.devtools.source.values import shortened
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.members import Function, HostClass, HostMember
from sglang_platform.devtools.upgrade.readings import reading_of, text_at
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import Side
from sglang_platform.devtools.upgrade.shapes import (
    bound_parameters,
    kind_of_function,
    kind_of_member,
    not_taken,
    parameters_of,
    shown,
    values_of,
    where_arguments_go,
)

__all__ = ["Seen", "seen", "side_of", "side_of_member"]

_ARGUMENTS = "sglang.srt.server_args.ServerArgs"
"""The record of the host's arguments."""


class Seen(NamedTuple):
    """One use of the host, as one release has it."""

    side: Side
    facts: dict[str, object] = {}
    """What the line relies on, by a word for it; None if the source does not tell."""
    takes: inspect.Signature | None = None
    fault: str | None = None
    """Why the line does not go with this release; None if it does, or if the source does not tell."""
    fix: str | None = None
    """What to write for this release."""


def seen(coupling: Coupling, release: Release) -> Seen | Absent | Unsure:
    """How the release writes it; not for bases and hooks. `coupling.owner` is a class of this release.

    Unsure also for what is told of another line: a function that is gone, of its import.
    """
    match coupling.kind:
        case "import":
            return _name(coupling, release)
        case "construct":
            return _construction(coupling, release)
        case "override" | "field" | "call" | "unpack":
            return _function(coupling, release) if coupling.owner is None else _member(coupling, release)
        case "environment":
            return _variable(coupling, release)
        case "argument":
            return _argument(coupling, release)
    place = text_at(release, coupling.target)
    if place is None:
        return Absent(f"{release.label} does not spell {coupling.target!r}")
    subject = f"{coupling.subject}: " if coupling.subject else ""
    return Seen(Side(f"{subject}{coupling.target}", place))


def _name(coupling: Coupling, release: Release) -> Seen | Absent | Unsure:
    answer = release.find(coupling.target)
    if not isinstance(answer, Definition):
        return answer
    node = answer.node
    kind = (
        "a class" if isinstance(node, ast.ClassDef) else "a function" if isinstance(node, Function) else None
    )
    value = repr(node.value) if isinstance(node, ast.Constant) else None
    return Seen(side_of(release, answer), {"kind": kind, "value": value}, fix="look at what it is used for")


def _construction(coupling: Coupling, release: Release) -> Seen | Unsure:
    owner = coupling.owner
    if owner is None:
        return Unsure("its class is not known")
    takes = owner.constructor()
    place = release.place(owner.module.name, owner.constructor_node())
    return _called(coupling.call, Side(shortened(shown(owner.name, takes), 400), place), None, takes)


def _function(coupling: Coupling, release: Release) -> Seen | Unsure:
    answer = release.find(coupling.target)
    if not isinstance(answer, Definition) or not isinstance(answer.node, Function):
        return Unsure("no function that the source shows")
    node, side = answer.node, side_of(release, answer)
    if coupling.kind == "unpack":
        return _unpacked(coupling, side, node)
    return _called(coupling.call, side, kind_of_function(node), parameters_of(node, is_method=False))


def _member(coupling: Coupling, release: Release) -> Seen | Absent | Unsure:
    owner, name = coupling.owner, coupling.member
    assert owner is not None
    member = owner.find(name)
    if member is None:
        is_set = coupling.kind != "override" and _is_set_from_outside(release, owner, name)
        if coupling.kind == "unpack" or is_set or _may_be_elsewhere(owner):
            return Unsure(f"{name} may be set elsewhere")
        near = nearest(name, [one for one in owner.names() if not one.startswith("__")])
        return Absent(f"{owner.name} has no {name}", near)
    takes, kind = bound_parameters(member), kind_of_member(member)
    if member.function is not None:
        text = shown(f"{member.owner.path[-1]}.{name}", takes, member.node)
    else:
        text = " ".join(ast.unparse(member.node).split())
    side = side_of_member(release, member, text)
    match coupling.kind:
        case "override":
            lacks = (
                not_taken(takes, coupling.mine) if takes is not None and coupling.mine is not None else None
            )
            fault = f"the plugin's {lacks}" if lacks is not None else None
            fix = f"write def {shown(name, takes, member.node)}" if "method" in kind else f"write {kind}"
            facts: dict[str, object] = {"kind": kind, "number of values": values_of(member.node)}
            return Seen(side, facts, takes, fault, fix)
        case "unpack":
            return _unpacked(coupling, side, member.node)
        case "field":
            is_method = "method" in kind
            fix = f"call {name}()" if is_method else f"read {name} without calling it"
            return Seen(side, {"kind": "a method" if is_method else "an attribute"}, fix=fix)
    kinds = {"an attribute": None, "a class method": "a method", "a static method": "a method"}
    return _called(coupling.call, side, kinds.get(kind, kind), takes if member.kind == "method" else None)


_FIXES = {
    "a property": "read it without calling it",
    "an async function": "await it",
    "an async method": "await it",
}


def _called(call: Call | None, side: Side, kind: str | None, takes: inspect.Signature | None) -> Seen:
    """A call: refused or not, and which parameters its arguments go to."""
    fault = call.refused_by(takes) if call is not None and takes is not None else None
    fix = f"call it with {takes}" if fault is not None else _FIXES.get(kind or "", f"call it with {takes}")
    if call is None or takes is None:
        return Seen(side, {"kind": kind}, takes, fix=fix)
    goes_to = ", ".join(where_arguments_go(call, takes)) if fault is None else None
    takes_all = any(one.kind is one.VAR_KEYWORD for one in takes.parameters.values())
    unknown = [one for one in call.keywords if one not in takes.parameters and not takes_all]
    fix = f"leave out {', '.join(unknown)}" if unknown else fix
    return Seen(side, {"kind": kind, "order of parameters": goes_to}, takes, fault, fix)


def _unpacked(coupling: Coupling, side: Side, node: ast.AST) -> Seen:
    values = values_of(node)
    differs = values is not None and values != coupling.values
    fault = f"{coupling.values} are taken" if differs else None
    return Seen(side, {"number of values": values}, None, fault, f"take {values} values")


def _variable(coupling: Coupling, release: Release) -> Seen | Absent:
    found = reading_of(release, coupling.target)
    if found is None:
        return Absent(f"{release.label} does not read it")
    side = Side(f"{coupling.target} = {found.default}" if found.default else coupling.target, found.place)
    fault, fix = None, "look at whether the plugin relies on the default"
    if found.deprecated_for is not None:
        fault = f"{release.label} says that it is deprecated"
        later = "leave it out before a later release refuses it"
        fix = f"write {found.deprecated_for}" if found.deprecated_for else later
    return Seen(side, {"default": found.default or None}, None, fault, fix)


def _argument(coupling: Coupling, release: Release) -> Seen | Absent:
    """A command-line flag. Uses of `server_args.name` are fields of the record."""
    field = coupling.target.lstrip("-").replace("-", "_")
    record = release.class_named(_ARGUMENTS)
    found = record.find(field) if record is not None else None
    place = (
        release.place(found.module.name, found.node)
        if found is not None
        else text_at(release, coupling.target)
    )
    if place is not None:
        return Seen(Side(coupling.target, place))
    near = nearest(field, record.names() if record is not None else ())
    return Absent(f"{release.label} does not take it", tuple(f"--{one.replace('_', '-')}" for one in near))


def _may_be_elsewhere(one: HostClass) -> bool:
    """True if a name may come from dynamic code in the class or a base, or from a `__getattr__`."""
    if any(
        part.module.class_scope(part.node).is_open and "Struct" not in ast.unparse(part.node) and _makes(part)
        for part in one.line()
    ):
        return True
    return any("__getattr__" in part.own for part in one.line())


def _makes(one: HostClass) -> bool:
    """True if names may be added by more than a decorator such as `dataclass`."""
    scope = one.module.class_scope(one.node)
    return not scope.only_adds_dunders and not one.is_record


def _is_set_from_outside(release: Release, one: HostClass, name: str) -> bool:
    """True if some module assigns the attribute on an object other than `self`."""
    setting = re.compile(rb"\b(?!self\.)(\w+)\." + name.encode() + rb"[ \t]*(?::[^=\n]+)?=[^=]")
    word = one.name.lower()
    for module in release.tree.containing(f".{name}".encode()):
        for match in setting.finditer(release.tree.text(module)):
            owner = match[1].decode().replace("_", "")
            if owner != "self" and owner in word:
                return True
    return False


def side_of_member(release: Release, member: HostMember, text: str) -> Side:
    return Side(shortened(text, 400), release.place(member.module.name, member.node))


def side_of(release: Release, found: Definition) -> Side:
    """The line that defines it, without its body."""
    name, node = ".".join(found.address.path), found.node
    text = name or found.address.module
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        before = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        text = f"{before} {name}({ast.unparse(node.args)})"
    elif isinstance(node, ast.ClassDef):
        text = f"class {name}({', '.join(map(ast.unparse, node.bases))})"
    elif isinstance(node, ast.expr):
        text = f"{name} = {ast.unparse(node)}"
    text = shortened(" ".join(text.split()), 400)
    return Side(text, release.place(found.address.module, node))
