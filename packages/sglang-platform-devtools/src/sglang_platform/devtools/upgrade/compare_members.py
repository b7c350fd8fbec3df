"""Members and functions of the host: overridden, called, read, taken apart."""

from __future__ import annotations

import ast
import inspect
import re

from sglang_platform.core.contract.drift import older_name
from sglang_platform.core.installed.address import nearest
from sglang_platform.devtools.host_calls import first_not_taken
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.upgrade.compare_names import side_of
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.members import HostClass, HostMember
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict
from sglang_platform.devtools.upgrade.shapes import (
    bound_parameters,
    kind_of_function,
    kind_of_member,
    parameters_of,
    refused,
    shown,
    values_of,
    what_differs,
    where_arguments_go,
)
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["call_change", "field_change", "override_change", "unpack_change"]


def override_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """A method of the plugin's that stands in for the host's."""
    pair, name = coupling.pair, coupling.member
    if pair is None or pair.old is None or pair.new is None:
        return None
    old, new = pair.old.find(name), pair.new.find(name)
    if old is None:
        return None
    if new is None:
        if _may_be_elsewhere(pair.new, name):
            return None
        return _row(
            coupling,
            sides,
            old,
            None,
            "breaks",
            "gone",
            f"{sides.new.label} does not call {name}",
            _instead(pair.new, name),
        )
    before, after = kind_of_member(old), kind_of_member(new)
    if before != after:
        said = f"{name} was {before}, and is {after}"
        return _row(coupling, sides, old, new, "breaks", "kind", said, f"write {after}")
    was, now = bound_parameters(old), bound_parameters(new)
    given, gives = values_of(old.node), values_of(new.node)
    if given is not None and gives is not None and given != gives:
        said = f"it gives {gives} values, and gave {given}"
        return _row(coupling, sides, old, new, "breaks", "values", said, f"return {gives} values")
    what = what_differs(was, now) if was is not None and now is not None else None
    if what is None or was is None or now is None:
        return None
    mine = coupling.mine
    fix = f"write def {shown(name, now, new.node)}"
    if mine is None:
        return _row(coupling, sides, old, new, "look", "signature", f"{name} {what}", fix)
    missing = _not_taken(now, mine)
    if missing is None:
        return _row(
            coupling, sides, old, new, "fits", "signature", f"{name} {what}", "nothing: the plugin's takes it"
        )
    if _not_taken(was, mine) == missing:
        return _row(coupling, sides, old, new, "look", "signature", f"{name} {what}", fix)
    passed = first_not_taken(sides.new.tree, name, now, mine, pair.new.name)
    verdict: Verdict = "breaks" if passed is not None else "look"
    shows = f"; {sides.new.label} calls {passed}" if passed is not None else ""
    return _row(
        coupling, sides, old, new, verdict, "signature", f"{name} {what}; the plugin's {missing}{shows}", fix
    )


def _not_taken(theirs: inspect.Signature, mine: inspect.Signature) -> str | None:
    """What a caller of the host's method may give and the plugin's does not take."""
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
    """A call of a function or method of the host."""
    call = coupling.call
    if call is None:
        return None
    if coupling.pair is None:
        return _function_call(coupling, sides)
    if coupling.pair.old is None or coupling.pair.new is None:
        return None
    old, new = coupling.pair.old.find(coupling.member), coupling.pair.new.find(coupling.member)
    if old is None:
        return None
    if new is None:
        return field_change(coupling, sides)
    before, after = kind_of_member(old), kind_of_member(new)
    if (
        before != after
        and {before, after} & {"a property", "an async method"}
        and "an attribute" not in (before, after)
    ):
        fix = {"a property": "read it without calling it", "an async method": "await it"}.get(
            after, f"call it as {after}"
        )
        return _row(coupling, sides, old, new, "breaks", "kind", f"it was {before}, and is {after}", fix)
    return _of_signatures(
        coupling, sides, bound_parameters(old), bound_parameters(new), _sides(sides, old, new)
    )


def _function_call(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    old, new = sides.find(coupling.target)
    if (
        isinstance(old, Definition)
        and not isinstance(new, Definition)
        and (homes := sides.moved_to(old.address))
    ):
        new = sides.new.lookup.find(homes[0])
    if not isinstance(old, Definition) or not isinstance(new, Definition):
        return None  # told where it is imported
    was, now = old.node, new.node
    if not isinstance(was, ast.FunctionDef | ast.AsyncFunctionDef) or not isinstance(
        now, ast.FunctionDef | ast.AsyncFunctionDef
    ):
        return None
    shown_sides = (side_of(sides.old, old), side_of(sides.new, new))
    if kind_of_function(was) != kind_of_function(now):
        what = f"it was {kind_of_function(was)}, and is {kind_of_function(now)}"
        fix = "await it" if isinstance(now, ast.AsyncFunctionDef) else "do not await it"
        return CouplingChange(
            "call", coupling.target, "breaks", "kind", what, (coupling.place,), *shown_sides, fix
        )
    return _of_signatures(
        coupling, sides, parameters_of(was, is_method=False), parameters_of(now, is_method=False), shown_sides
    )


def _of_signatures(
    coupling: Coupling,
    sides: Sides,
    old: inspect.Signature | None,
    new: inspect.Signature | None,
    shown_sides: tuple[Side | None, Side | None],
) -> CouplingChange | None:
    verdict: Verdict
    call = coupling.call
    what = what_differs(old, new) if old is not None and new is not None else None
    if what is None or old is None or new is None or call is None:
        return None
    was_refused, is_refused = refused(call, old), refused(call, new)
    name = coupling.target.rpartition(".")[2]
    if was_refused is not None and is_refused is not None:
        verdict, fix = "look", f"the call goes with neither: {is_refused}: {call.text}"
    elif is_refused is not None:
        verdict, fix = "breaks", f"{is_refused}: {call.text}"
    elif where_arguments_go(call, old) != where_arguments_go(call, new):
        verdict = "breaks"
        fix = (
            f"its arguments go to {', '.join(where_arguments_go(call, new))}; give them by name: {call.text}"
        )
    else:
        verdict, fix = "fits", "nothing has to be written: the call goes with both"
    return CouplingChange(
        "call",
        coupling.target,
        verdict,
        "signature",
        f"{name} {what}",
        (coupling.place,),
        *shown_sides,
        fix,
    )


def field_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """An attribute that the plugin reads, writes or calls."""
    pair, name = coupling.pair, coupling.member
    if pair is None or pair.old is None or pair.new is None:
        return None
    old, new = pair.old.find(name), pair.new.find(name)
    if old is None:
        return None
    if new is None:
        if _may_be_elsewhere(pair.new, name) or _set_from_outside(sides.new, pair.new, name):
            return None
        verdict: Verdict = "look" if coupling.guarded else "breaks"
        goes_on = "; the plugin goes on without it" if coupling.guarded else ""
        return _row(
            coupling,
            sides,
            old,
            None,
            verdict,
            "gone",
            f"{pair.new.name} has no {name} any more{goes_on}",
            _instead(pair.new, name),
        )
    before, after = kind_of_member(old), kind_of_member(new)
    if coupling.kind == "field" and {before, after} <= {"a property", "an attribute"}:
        return None  # both are read alike
    if (
        coupling.kind == "field"
        and before != after
        and ("a property" in (before, after) or "an attribute" in (before, after))
    ):
        fix = f"call {name}()" if "method" in after else f"read {name} without calling it"
        return _row(coupling, sides, old, new, "breaks", "kind", f"{name} was {before}, and is {after}", fix)
    return None


def unpack_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """A result that the plugin takes apart."""
    if coupling.pair is not None:
        old_member = coupling.pair.old.find(coupling.member) if coupling.pair.old is not None else None
        new_member = coupling.pair.new.find(coupling.member) if coupling.pair.new is not None else None
        if old_member is None or new_member is None:
            return None
        was, now = old_member.node, new_member.node
        shown_sides: tuple[Side | None, Side | None] = _sides(sides, old_member, new_member)
    else:
        old, new = sides.find(coupling.target)
        if (
            isinstance(old, Definition)
            and not isinstance(new, Definition)
            and (homes := sides.moved_to(old.address))
        ):
            new = sides.new.lookup.find(homes[0])
        if (
            not isinstance(old, Definition)
            or not isinstance(new, Definition)
            or old.node is None
            or new.node is None
        ):
            return None
        was, now = old.node, new.node
        shown_sides = (side_of(sides.old, old), side_of(sides.new, new))
    before, after = values_of(was), values_of(now)
    if before == after or after is None:
        return None
    gave = f"{before} values" if before is not None else "what the source does not tell"
    fits = after == coupling.values
    what = f"it gives {after} values, and gave {gave}; {coupling.values} are taken"
    fix = "nothing: the line is written for the newer release" if fits else f"take {after} values"
    return CouplingChange(
        "unpack",
        coupling.target,
        "fits" if fits else "breaks",
        "values",
        what,
        (coupling.place,),
        *shown_sides,
        fix,
    )


def _may_be_elsewhere(one: HostClass, name: str) -> bool:
    """Can a base that was not read have it, or a name that is made as the class is?"""
    if any(
        part.module.class_scope(part.node).is_open and "Struct" not in ast.unparse(part.node) and _makes(part)
        for part in one.line()
    ):
        return True
    return any("__getattr__" in part.own for part in one.line())


def _makes(one: HostClass) -> bool:
    """Is it open for more than a decorator, as `dataclass` with keywords is?"""
    scope = one.module.class_scope(one.node)
    return not scope.only_adds_dunders and not one.is_record


def _set_from_outside(release: Release, one: HostClass, name: str) -> bool:
    """Does some module assign the attribute on another object than `self`?"""
    setting = re.compile(rb"\b(?!self\.)(\w+)\." + name.encode() + rb"[ \t]*(?::[^=\n]+)?=[^=]")
    word = one.name.lower()
    for module in release.tree.containing(f".{name}".encode()):
        for match in setting.finditer(release.tree.text(module)):
            owner = match[1].decode().replace("_", "")
            if owner != "self" and owner in word:
                return True
    return False


def _instead(new: HostClass, name: str) -> str:
    """What to write for a member that is gone."""
    row = older_name(name)
    if row is not None and new.find(row.member) is not None:
        return f"write {row.new}"
    like = nearest(name, [one for one in new.names() if not one.startswith("__")])
    if like:
        return f"like it: {', '.join(like)}"
    return f"look in {new.address} for what took its place"


def _row(
    coupling: Coupling,
    sides: Sides,
    old: HostMember,
    new: HostMember | None,
    verdict: Verdict,
    how: str,
    what: str,
    fix: str,
) -> CouplingChange:
    before, after = _sides(sides, old, new)
    return CouplingChange(
        coupling.kind, coupling.target, verdict, how, what, (coupling.place,), before, after, fix
    )


def _sides(sides: Sides, old: HostMember, new: HostMember | None) -> tuple[Side, Side | None]:
    def one_side(release: Release, member: HostMember) -> Side:
        if member.function is not None:
            text = shown(f"{member.owner.path[-1]}.{member.name}", bound_parameters(member), member.node)
        else:
            text = " ".join(ast.unparse(member.node).split())
        return Side(
            text if len(text) < 400 else f"{text[:397]}...", release.place(member.module.name, member.node)
        )

    return one_side(sides.old, old), one_side(sides.new, new) if new is not None else None
