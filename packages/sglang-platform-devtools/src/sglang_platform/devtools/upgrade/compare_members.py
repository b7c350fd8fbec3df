"""Compares host members and functions that a plugin overrides, calls, reads or unpacks."""

from __future__ import annotations

import ast
import inspect
import re

from sglang_platform.core.contract.drift import older_name
from sglang_platform.core.installed.address import nearest
from sglang_platform.devtools.host_calls import first_not_taken
from sglang_platform.devtools.source.signatures import what_differs
from sglang_platform.devtools.source.values import shortened
from sglang_platform.devtools.upgrade.compare_names import goes_on, if_guarded, side_of
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.members import Function, HostClass, HostMember
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict, change_of
from sglang_platform.devtools.upgrade.shapes import (
    bound_parameters,
    kind_of_function,
    kind_of_member,
    parameters_of,
    shown,
    values_of,
    where_arguments_go,
)
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = [
    "call_change",
    "field_change",
    "override_change",
    "side_of_member",
    "signature_change",
    "unpack_change",
]


def override_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """The change for a plugin method that overrides a host method."""
    owner, name = sides.counterpart(coupling.owner), coupling.member
    if coupling.owner is None or owner is None:
        return None
    old, new = coupling.owner.find(name), owner.find(name)
    if old is None:
        return None
    was_side, now_side = _sides(sides, old, new)
    if new is None:
        what = f"{sides.new.label} does not call {name}"
        gone = change_of(coupling, "breaks", "gone", what, was_side, None, _instead(owner, name))
        return None if _may_be_elsewhere(owner) else gone
    before, after = kind_of_member(old), kind_of_member(new)
    if before != after:
        what = f"{name} was {before}, and is {after}"
        return change_of(coupling, "breaks", "kind", what, was_side, now_side, f"write {after}")
    given, gives = values_of(old.node), values_of(new.node)
    if given is not None and gives is not None and given != gives:
        what = f"it gives {gives} values, and gave {given}"
        return change_of(coupling, "breaks", "values", what, was_side, now_side, f"return {gives} values")
    was, now = bound_parameters(old), bound_parameters(new)
    if was is None or now is None or (differs := what_differs(was, now)) is None:
        return None
    verdict: Verdict = "look"
    what, fix = f"{name}: {differs}", f"write def {shown(name, now, new.node)}"
    missing = _not_taken(now, coupling.mine) if coupling.mine is not None else None
    if coupling.mine is not None and missing is None:
        verdict, fix = "fits", "nothing: the plugin's takes it"
    elif coupling.mine is not None and _not_taken(was, coupling.mine) != missing:
        passed = first_not_taken(sides.new.tree, name, now, coupling.mine, owner.name)
        verdict = "breaks" if passed is not None else "look"
        shows = f"; {sides.new.label} calls {passed}" if passed is not None else ""
        what = f"{what}; the plugin's {missing}{shows}"
    return change_of(coupling, verdict, "signature", what, was_side, now_side, fix)


def _not_taken(theirs: inspect.Signature, mine: inspect.Signature) -> str | None:
    """The arguments that the host's method accepts and the plugin's does not."""
    names, kinds = mine.parameters, inspect.Parameter
    open_names = any(one.kind is kinds.VAR_KEYWORD for one in names.values())
    open_places = any(one.kind is kinds.VAR_POSITIONAL for one in names.values())
    lacks = [
        one.name
        for one in theirs.parameters.values()
        if one.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL) and one.name not in names
    ]
    places = [
        one for one in names.values() if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    wanted = [one for one in theirs.parameters.values() if one.kind is kinds.POSITIONAL_OR_KEYWORD]
    if open_names and (open_places or len(places) >= len(wanted) or all(one.name in names for one in wanted)):
        lacks = []
    needs = [
        one.name
        for one in names.values()
        if one.default is kinds.empty
        and one.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
        and one.name not in theirs.parameters
    ]
    parts = [f"lacks {', '.join(lacks)}"] if lacks else []
    parts += [f"asks for {', '.join(needs)}"] if needs else []
    return " and ".join(parts) or None


def call_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """The change for a call of a host function or method."""
    if coupling.owner is None:
        return _function_call(coupling, sides)
    owner = sides.counterpart(coupling.owner)
    if owner is None:
        return None
    old, new = coupling.owner.find(coupling.member), owner.find(coupling.member)
    if old is None or new is None:
        return field_change(coupling, sides)
    before, after = kind_of_member(old), kind_of_member(new)
    was_side, now_side = _sides(sides, old, new)
    is_other = before != after and "an attribute" not in (before, after)
    if is_other and {before, after} & {"a property", "an async method"}:
        fixes = {"a property": "read it without calling it", "an async method": "await it"}
        what, fix = f"it was {before}, and is {after}", fixes.get(after, f"call it as {after}")
        return change_of(coupling, "breaks", "kind", what, was_side, now_side, fix)
    return signature_change(
        coupling, coupling.member, bound_parameters(old), bound_parameters(new), was_side, now_side
    )


def _function_call(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    old, new = sides.definitions(coupling.target)
    was, now = old and old.node, new and new.node
    if not isinstance(was, Function) or not isinstance(now, Function):
        return None  # the check of the import reports it
    was_side, now_side = side_of(sides.old, old), side_of(sides.new, new)
    before, after = kind_of_function(was), kind_of_function(now)
    if before != after:
        fix = "await it" if isinstance(now, ast.AsyncFunctionDef) else "do not await it"
        what = f"it was {before}, and is {after}"
        return change_of(coupling, "breaks", "kind", what, was_side, now_side, fix)
    takes = parameters_of(was, is_method=False), parameters_of(now, is_method=False)
    return signature_change(coupling, coupling.target.rpartition(".")[2], *takes, was_side, now_side)


def signature_change(
    coupling: Coupling,
    name: str,
    old: inspect.Signature | None,
    new: inspect.Signature | None,
    was: Side | None,
    now: Side | None,
) -> CouplingChange | None:
    """The change for a call whose target's signature changed: whether it still fits and means the same."""
    call = coupling.call
    what = what_differs(old, new) if old is not None and new is not None else None
    if what is None or old is None or new is None or call is None:
        return None
    verdict: Verdict
    was_refused, is_refused = call.refused_by(old), call.refused_by(new)
    if was_refused is not None and is_refused is not None:
        verdict, fix = "look", f"the call goes with neither: {is_refused}: {call.text}"
    elif is_refused is not None:
        verdict, fix = "breaks", f"{is_refused}: {call.text}"
    elif (go := where_arguments_go(call, new)) != where_arguments_go(call, old):
        verdict, fix = "breaks", f"its arguments go to {', '.join(go)}; give them by name: {call.text}"
    else:
        verdict, fix = "fits", "nothing has to be written: the call goes with both"
    return change_of(coupling, verdict, "signature", f"{name}: {what}", was, now, fix)


def field_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """The change for an attribute that the plugin reads, writes or calls."""
    owner, name = sides.counterpart(coupling.owner), coupling.member
    if coupling.owner is None or owner is None:
        return None
    old, new = coupling.owner.find(name), owner.find(name)
    if old is None:
        return None
    was_side, now_side = _sides(sides, old, new)
    if new is None:
        if _may_be_elsewhere(owner) or _set_from_outside(sides.new, owner, name):
            return None
        what = f"{owner.name} has no {name} any more{goes_on(coupling)}"
        fix = _instead(owner, name)
        return change_of(coupling, if_guarded(coupling), "gone", what, was_side, None, fix)
    before, after = kind_of_member(old), kind_of_member(new)
    read = {"a property", "an attribute"}  # unchanged
    if coupling.kind != "field" or before == after or len({before, after} & read) != 1:
        return None
    fix = f"call {name}()" if "method" in after else f"read {name} without calling it"
    what = f"{name} was {before}, and is {after}"
    return change_of(coupling, "breaks", "kind", what, was_side, now_side, fix)


def unpack_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """The change for a result that the plugin unpacks."""
    if coupling.owner is not None:
        owner = sides.counterpart(coupling.owner)
        old_member = coupling.owner.find(coupling.member)
        new_member = owner.find(coupling.member) if owner is not None else None
        if old_member is None or new_member is None:
            return None
        was: ast.AST | None = old_member.node
        now: ast.AST | None = new_member.node
        shown_sides = _sides(sides, old_member, new_member)
    else:
        old, new = sides.definitions(coupling.target)
        was, now = old and old.node, new and new.node
        if was is None or now is None:
            return None
        shown_sides = side_of(sides.old, old), side_of(sides.new, new)
    before, after = values_of(was), values_of(now)
    if before == after or after is None:
        return None
    gave = f"{before} values" if before is not None else "what the source does not tell"
    fits = after == coupling.values
    what = f"it gives {after} values, and gave {gave}; {coupling.values} are taken"
    fix = "nothing: the line is written for the newer release" if fits else f"take {after} values"
    return change_of(coupling, "fits" if fits else "breaks", "values", what, *shown_sides, fix)


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


def _set_from_outside(release: Release, one: HostClass, name: str) -> bool:
    """True if some module assigns the attribute on an object other than `self`."""
    setting = re.compile(rb"\b(?!self\.)(\w+)\." + name.encode() + rb"[ \t]*(?::[^=\n]+)?=[^=]")
    word = one.name.lower()
    for module in release.tree.containing(f".{name}".encode()):
        for match in setting.finditer(release.tree.text(module)):
            owner = match[1].decode().replace("_", "")
            if owner != "self" and owner in word:
                return True
    return False


def _instead(new: HostClass, name: str) -> str:
    """The fix for a removed member."""
    row = older_name(name)
    if row is not None and new.find(row.member) is not None:
        return f"write {row.new}"
    like = nearest(name, [one for one in new.names() if not one.startswith("__")])
    if like:
        return f"like it: {', '.join(like)}"
    return f"look in {new.address} for what took its place"


def _sides(sides: Sides, old: HostMember, new: HostMember | None) -> tuple[Side | None, Side | None]:
    return (
        side_of_member(sides.old, old, _written(old)),
        side_of_member(sides.new, new, _written(new)) if new is not None else None,
    )


def _written(member: HostMember) -> str:
    if member.function is not None:
        return shown(f"{member.owner.path[-1]}.{member.name}", bound_parameters(member), member.node)
    return " ".join(ast.unparse(member.node).split())


def side_of_member(release: Release, member: HostMember, text: str) -> Side:
    return Side(shortened(text, 400), release.place(member.module.name, member.node))
