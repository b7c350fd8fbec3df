"""Classes of the host: what a plugin's class stands on, and what it makes of one."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from sglang_platform.devtools.source.signatures import decorators
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.members import HostClass, HostMember
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict
from sglang_platform.devtools.upgrade.shapes import (
    bound_parameters,
    refused,
    shown,
    what_differs,
    where_arguments_go,
)
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["base_changes", "construct_change"]


def base_changes(coupling: Coupling, sides: Sides) -> list[CouplingChange]:
    """What is new below a class of the plugin: other bases, duties, and names that the host takes for its own."""
    pair = coupling.pair
    if pair is None or pair.old is None or pair.new is None:
        return []  # told where it is imported
    found: list[CouplingChange] = []
    old, new = pair.old, pair.new
    before, after = _bases(old), _bases(new)
    if before != after:
        left, came = [one for one in before if one not in after], [one for one in after if one not in before]
        what = (
            "; ".join(
                [
                    *([f"it no longer stands on {', '.join(left)}"] if left else []),
                    *([f"it stands on {', '.join(came)}"] if came else []),
                ]
            )
            or f"the order of its bases is {', '.join(after)}"
        )
        fix = "look at what the plugin's class has from the bases that went, and at metaclass and __init__"
        found.append(
            CouplingChange(
                "base",
                coupling.target,
                "look",
                "base",
                what,
                (coupling.place,),
                Side(f"class {old.name}({', '.join(before)})", sides.old.place(old.module.name, old.node)),
                Side(f"class {new.name}({', '.join(after)})", sides.new.place(new.module.name, new.node)),
                fix,
            )
        )
    for name, member in _duties(old, new):
        if name not in coupling.own:
            wanted = shown(name, bound_parameters(member), member.node)
            found.append(
                CouplingChange(
                    "base",
                    f"{coupling.target}.{name}",
                    "breaks" if _is_abstract(member) else "look",
                    "duty",
                    f"{sides.new.label} asks a subclass for {name}",
                    (coupling.place,),
                    None,
                    Side(wanted, sides.new.place(member.module.name, member.node)),
                    f"write def {wanted}, or know that nothing calls it on this path",
                )
            )
    for name in sorted(coupling.own):
        taken = new.find(name)
        if (
            taken is not None
            and taken.inside is None
            and old.find(name) is None
            and not name.startswith("__")
        ):
            signature = bound_parameters(taken)
            found.append(
                CouplingChange(
                    "base",
                    f"{coupling.target}.{name}",
                    "look",
                    "taken",
                    f"{sides.new.label} has a {name} of its own, which the plugin's stands in for",
                    (coupling.place,),
                    None,
                    Side(shown(name, signature, taken.node), sides.new.place(taken.module.name, taken.node)),
                    f"give the plugin's another name, or make it do what {sides.new.label} wants of it",
                )
            )
    return found


def _bases(one: HostClass) -> list[str]:
    return [ast.unparse(base) for base in one.node.bases]


def _duties(old: HostClass, new: HostClass) -> Iterator[tuple[str, HostMember]]:
    """Methods that a subclass has to write, and had not to before."""
    for name, member in new.names().items():
        if (
            member.function is None
            or name.startswith("__")
            or not (_is_abstract(member) or _only_refuses(member))
        ):
            continue
        if not _is_abstract(member) and _is_written_without(new, member):
            continue
        before = old.find(name)
        if before is None or not (_is_abstract(before) or _only_refuses(before)):
            yield name, member


def _is_written_without(one: HostClass, member: HostMember) -> bool:
    """Does a class of the host below the plugin's write others of the owner's refusals, and leave this one?"""
    owner = next(part for part in one.line() if part.address == member.owner)
    written = [
        one.find(name) for name, each in owner.own.items() if _is_abstract(each) or _only_refuses(each)
    ]
    return any(each is not None and each.owner != member.owner for each in written)


def _is_abstract(member: HostMember) -> bool:
    return "abstractmethod" in decorators(member.node)


def _only_refuses(member: HostMember) -> bool:
    """Is its body nothing but ``raise NotImplementedError``?"""
    function = member.function
    if function is None:
        return False
    body = [
        one
        for one in function.body
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0])


def construct_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """A call of a class: does its constructor take the arguments still, and do they mean the same?"""
    pair, call = coupling.pair, coupling.call
    if pair is None or call is None or pair.old is None or pair.new is None:
        return None
    old, new = pair.old.constructor(), pair.new.constructor()
    if old is None or new is None:
        return None
    what = what_differs(old, new)
    if what is None:
        return None
    sides_shown = (
        Side(shown(pair.old.name, old), sides.old.place(pair.old.module.name, pair.old.constructor_node())),
        Side(shown(pair.new.name, new), sides.new.place(pair.new.module.name, pair.new.constructor_node())),
    )
    verdict: Verdict
    was_refused, is_refused = refused(call, old), refused(call, new)
    if was_refused is not None and is_refused is not None:
        verdict, fix = "look", f"the call goes with neither: {is_refused}: {call.text}"
    elif is_refused is not None:
        verdict, fix = "breaks", f"{is_refused}: {call.text}"
    elif where_arguments_go(call, old) != where_arguments_go(call, new):
        verdict, fix = (
            "breaks",
            f"its arguments go to {', '.join(where_arguments_go(call, new))}; give them by name",
        )
    else:
        verdict, fix = "fits", "nothing has to be written; " + _optional(new, old)
    return CouplingChange(
        "construct",
        coupling.target,
        verdict,
        "signature",
        f"{pair.new.name} {_shortened(what)}",
        (coupling.place,),
        *sides_shown,
        fix,
    )


def _optional(new: inspect.Signature, old: inspect.Signature) -> str:
    added = [name for name in new.parameters if name not in old.parameters]
    return f"new: {', '.join(added[:6])}" if added else "the call passes nothing that changed"


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:297]}..."
