"""Compares names that a plugin imports, or spells as full dotted names."""

from __future__ import annotations

import ast

from sglang_platform.devtools.source.answers import Absent, Answer, Definition
from sglang_platform.devtools.source.values import shortened
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict, change_of
from sglang_platform.devtools.upgrade.shapes import kind_of_function
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["goes_on", "if_guarded", "import_change", "side_of"]


def import_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """The change of a name: gone, moved, of another kind or value; None if the older release lacks it too."""
    old, new = sides.find(coupling.target)
    if not isinstance(old, Definition):
        return None
    if isinstance(new, Absent):
        return _lost(coupling, sides, old, new)
    if not isinstance(new, Definition):
        return None
    shown = side_of(sides.old, old), side_of(sides.new, new)
    before, after = kind_of_function(old.node), kind_of_function(new.node)
    if before is not None and after is not None and before != after and "class" in f"{before}{after}":
        what = f"it was {before}, and is {after}"
        return change_of(coupling, "look", "kind", what, *shown, "look at what it is used for")
    was, now = _constant(old), _constant(new)
    if was is not None and now is not None and was != now:
        what, fix = "its value is another one", "look at what depends on the value"
        return change_of(coupling, "look", "value", what, *shown, fix)
    return None


def if_guarded(coupling: Coupling) -> Verdict:
    """The verdict on a missing name: "look" if the plugin may go on without it."""
    return "breaks" if coupling.reach.kind == "runs" else "look"


def goes_on(coupling: Coupling) -> str:
    match coupling.reach.kind:
        case "survived":
            return "; the plugin goes on without it"
        case "unsure":
            return f"; not known: {coupling.reach.why}"
    return "; a string names it" if coupling.subject else ""


def _lost(coupling: Coupling, sides: Sides, old: Definition, new: Absent) -> CouplingChange:
    """The change for a name that the newer release lacks, with its new place or similar names."""
    verdict, was = if_guarded(coupling), side_of(sides.old, old)
    homes = sides.moved_to(old.address) if old.address.path else ()
    if homes:
        home = homes[0]
        there = side_of(sides.new, sides.new.lookup.find(home)) or Side(str(home))
        fix = f"write from {home.module} import {home.path[0]}"
        if len(homes) > 1:
            fix += f", or from {' or '.join(one.module for one in homes[1:3])}"
        what = f"it is in {home.module} now{goes_on(coupling)}"
        return change_of(coupling, verdict, "moved", what, was, there, fix)
    module = None if old.address.path else _moved_module(sides, coupling.target)
    if module is not None:
        was, now = (
            Side(coupling.target, sides.old.place(coupling.target, None)),
            Side(module, sides.new.place(module, None)),
        )
        what = f"the module is gone; its names are in {module}"
        return change_of(coupling, verdict, "moved", what, was, now, f"write {module}")
    like = f"like it: {', '.join(new.nearest[:3])}" if new.nearest else None
    fix = like or "look in the newer release for what took its place"
    return change_of(coupling, verdict, "gone", f"it is gone{goes_on(coupling)}: {new.why}", was, None, fix)


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


def side_of(release: Release, found: Answer | None) -> Side | None:
    """The line that defines it, without its body."""
    if not isinstance(found, Definition):
        return None
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


def _constant(found: Definition) -> object:
    return repr(found.node.value) if isinstance(found.node, ast.Constant) else None
