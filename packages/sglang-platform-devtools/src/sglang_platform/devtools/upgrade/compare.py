"""Compares how two releases write what a line of a plugin depends on."""

from __future__ import annotations

import ast

from sglang_platform.core.contract.drift import older_name
from sglang_platform.devtools.host_calls import Call, first_not_taken
from sglang_platform.devtools.source.answers import Absent, Definition
from sglang_platform.devtools.source.signatures import what_differs
from sglang_platform.devtools.source.values import shortened
from sglang_platform.devtools.upgrade.compare_bases import base_changes
from sglang_platform.devtools.upgrade.compare_hooks import HookAnswers
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.rows import VERDICTS, CouplingChange, Side, Verdict, change_of
from sglang_platform.devtools.upgrade.seen import Seen, seen, side_of
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["changes_of"]

_OTHER_FACTS: dict[str, Verdict] = {"import": "look", "environment": "look", "unpack": "fits"}
"""The verdict where the facts differ; for other kinds the line breaks."""


def changes_of(coupling: Coupling, sides: Sides, hooks: HookAnswers) -> list[CouplingChange]:
    """The changes of one coupling; a base class may have several."""
    if coupling.reach.kind == "never":
        return []
    match coupling.kind:
        case "base":
            return base_changes(coupling, sides)
        case "hook" | "patch":
            found = hooks.change(coupling)
        case _:
            found = _change(coupling, sides)
    return [found] if found is not None else []


def _change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """None also where the older release lacks it, or the newer one does not tell."""
    old, newer = seen(coupling, sides.old), _in_newer(coupling, sides)
    if not isinstance(old, Seen) or newer is None:
        return None
    match seen(newer, sides.new):
        case Absent() as gone:
            return _lost(newer, sides, old.side, gone)
        case Seen() as new:
            return _differing(newer, sides, old, new)
    return None


def _in_newer(coupling: Coupling, sides: Sides) -> Coupling | None:
    """The coupling as the newer release names its class or function; None for a class that it lacks."""
    if coupling.owner is not None:
        owner = sides.counterpart(coupling.owner)
        return coupling._replace(owner=owner) if owner is not None else None
    if coupling.kind in ("call", "unpack"):
        old, new = sides.find(coupling.target)
        if isinstance(old, Definition) and not isinstance(new, Definition):
            homes = sides.moved_to(old.address)
            return coupling._replace(target=str(homes[0]).replace(":", ".")) if homes else None
    return coupling


def _differing(coupling: Coupling, sides: Sides, old: Seen, new: Seen) -> CouplingChange | None:
    """The change of what both releases have: other facts, another signature, or a line that goes with one alone."""
    verdicts: list[Verdict] = []
    what = []
    for word, after in new.facts.items():
        before = old.facts.get(word)
        if before is None and coupling.kind == "unpack":
            before = "not told"
        if None not in (before, after) and before != after:
            verdicts.append(_OTHER_FACTS.get(coupling.kind, "breaks"))
            what.append(f"its {word} is {after}, and was {before}")
    signature = (
        what_differs(old.takes, new.takes) if old.takes is not None and new.takes is not None else None
    )
    if signature is not None:
        is_asked = coupling.kind != "override" or coupling.mine is not None
        verdicts.append("fits" if is_asked and new.fault is None else "look")
        what.append(shortened(signature, 300))
    is_override = coupling.kind == "override"
    if new.fault is not None and new.fault != old.fault and (is_override or old.fault is None):
        passed = _passed(coupling, sides, new) if is_override else None
        is_sure = passed is not None if is_override else coupling.kind != "environment"
        verdicts.append("breaks" if is_sure else "look")
        what.append(new.fault + (f"; {sides.new.label} calls {passed}" if passed is not None else ""))
    if not verdicts:
        return None
    verdict = min(verdicts, key=VERDICTS.index)
    fix = new.fix if verdict != "fits" else "nothing: what is written goes with both"
    return change_of(coupling, verdict, "changed", "; ".join(what), old.side, new.side, fix)


def _passed(coupling: Coupling, sides: Sides, new: Seen) -> Call | None:
    """A call in the newer release that the plugin's override does not take."""
    if coupling.owner is None or coupling.mine is None or new.takes is None:
        return None
    return first_not_taken(sides.new.tree, coupling.member, new.takes, coupling.mine, coupling.owner.name)


def _lost(coupling: Coupling, sides: Sides, was: Side, gone: Absent) -> CouplingChange:
    """The change for what the newer release lacks, with its new place or similar names."""
    verdict: Verdict = "breaks" if coupling.reach.kind == "runs" else "look"
    old = sides.old.find(coupling.target) if coupling.kind == "import" else None
    if isinstance(old, Definition) and old.address.path:
        homes = sides.moved_to(old.address)
        if homes:
            found = sides.new.lookup.find(homes[0])
            now = side_of(sides.new, found) if isinstance(found, Definition) else Side(str(homes[0]))
            what = f"it is in {homes[0].module} now{_goes_on(coupling)}"
            fix = f"write from {' or '.join(one.module for one in homes[:3])} import {homes[0].path[0]}"
            return change_of(coupling, verdict, "moved", what, was, now, fix)
    elif isinstance(old, Definition) and (module := _moved_module(sides, coupling.target)) is not None:
        now = Side(module, sides.new.place(module, None))
        what = f"the module is gone; its names are in {module}{_goes_on(coupling)}"
        return change_of(coupling, verdict, "moved", what, was, now, f"write {module}")
    what = f"it is gone: {gone.why}{_goes_on(coupling)}"
    return change_of(coupling, verdict, "gone", what, was, None, _instead(coupling, gone))


def _instead(coupling: Coupling, gone: Absent) -> str:
    row = older_name(coupling.member)
    if row is not None and coupling.owner is not None and coupling.owner.find(row.member) is not None:
        return f"write {row.new}"
    if gone.nearest:
        return f"like it: {', '.join(gone.nearest[:3])}"
    return "look in the newer release for what took its place"


def _goes_on(coupling: Coupling) -> str:
    match coupling.reach.kind:
        case "survived":
            return "; the plugin goes on without it"
        case "unsure":
            return f"; not known: {coupling.reach.why}"
    return "; a string names it" if coupling.kind == "import" and coupling.subject else ""


def _moved_module(sides: Sides, dotted: str) -> str | None:
    """The module that newly defines more than half of the old module's names; None if there is none."""
    module = sides.old.module(dotted)
    if module is None:
        return None
    names = [
        one.name
        for one in module.tree.body
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    homes = [set(sides.new.tree.defining(name)) - set(sides.old.tree.defining(name)) for name in names]
    counts = {home: sum(home in one for one in homes) for one in homes for home in one}
    best = max(counts, key=lambda one: counts[one], default=None)
    return best if best is not None and counts[best] * 2 > len(names) else None
