"""Compares host classes that a plugin subclasses: their bases, and what they ask of a subclass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sglang_platform.devtools.source.signatures import decorators, only_refuses
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.members import HostClass, HostMember
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict, change_of
from sglang_platform.devtools.upgrade.seen import side_of_member
from sglang_platform.devtools.upgrade.shapes import bound_parameters, shown
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["base_changes"]


def base_changes(coupling: Coupling, sides: Sides) -> list[CouplingChange]:
    """Changes in the host bases of a plugin class: other bases, and new abstract methods."""
    old, new = coupling.owner, sides.counterpart(coupling.owner)
    if old is None or new is None:
        return []  # reported at its import
    found = _other_bases(coupling, old, new, sides)
    for name, member in _duties(old, new):
        if name not in coupling.own:
            side = side_of_member(sides.new, member, shown(name, bound_parameters(member), member.node))
            verdict: Verdict = "breaks" if _is_abstract(member) else "look"
            what = f"{sides.new.label} asks a subclass for {name}"
            fix = f"write def {side.text}, or know that nothing calls it on this path"
            found.append(change_of(coupling, verdict, "duty", what, None, side, fix, name))
    return found


def _other_bases(coupling: Coupling, old: HostClass, new: HostClass, sides: Sides) -> list[CouplingChange]:
    before, after = _bases(old), _bases(new)
    if before == after:
        return []
    left, came = [one for one in before if one not in after], [one for one in after if one not in before]
    said = [f"it no longer stands on {', '.join(left)}"] if left else []
    said += [f"it stands on {', '.join(came)}"] if came else []
    what = "; ".join(said) or f"the order of its bases is {', '.join(after)}"
    was = Side(f"class {old.name}({', '.join(before)})", sides.old.place(old.module.name, old.node))
    now = Side(f"class {new.name}({', '.join(after)})", sides.new.place(new.module.name, new.node))
    fix = "look at what the plugin's class has from the bases that went, and at metaclass and __init__"
    return [change_of(coupling, "look", "base", what, was, now, fix)]


def _bases(one: HostClass) -> list[str]:
    return [ast.unparse(base) for base in one.node.bases]


def _duties(old: HostClass, new: HostClass) -> Iterator[tuple[str, HostMember]]:
    """Methods that a subclass must implement now, and did not have to before."""
    for name, member in new.names().items():
        if (
            member.function is None
            or name.startswith("__")
            or not (_is_abstract(member) or only_refuses(member.function))
        ):
            continue
        if not _is_abstract(member) and _is_written_without(new, member):
            continue
        before = old.find(name)
        if before is None or not (_is_abstract(before) or only_refuses(before.function)):
            yield name, member


def _is_written_without(one: HostClass, member: HostMember) -> bool:
    """True if a host class between implements other unimplemented methods of the owner, but not this one."""
    owner = next(part for part in one.line() if part.address == member.owner)
    written = [
        one.find(name)
        for name, each in owner.own.items()
        if _is_abstract(each) or only_refuses(each.function)
    ]
    return any(each is not None and each.owner != member.owner for each in written)


def _is_abstract(member: HostMember) -> bool:
    return "abstractmethod" in decorators(member.node)
