"""Names that a plugin imports, or writes out in full."""

from __future__ import annotations

import ast

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Absent, Answer, Definition
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict
from sglang_platform.devtools.upgrade.shapes import kind_of_function
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["import_change", "lost", "side_of"]


def import_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """Gone, moved, of another kind, or a constant of another value. A name that the older release lacks too is none."""
    old, new = sides.find(coupling.target)
    if not isinstance(old, Definition):
        return None
    if isinstance(new, Absent):
        return lost(coupling, sides, old, new)
    if not isinstance(new, Definition):
        return None
    before, after = kind_of_function(old.node), kind_of_function(new.node)
    if before is not None and after is not None and before != after and "class" in f"{before}{after}":
        what = f"it was {before}, and is {after}"
        return _change(coupling, sides, old, new, "kind", what, "look at what it is used for")
    if (
        before is None
        and after is None
        and _constant(old) != _constant(new)
        and None
        not in (
            _constant(old),
            _constant(new),
        )
    ):
        what = "its value is another one"
        return _change(coupling, sides, old, new, "value", what, "look at what depends on the value")
    return None


def _change(
    coupling: Coupling, sides: Sides, old: Definition, new: Definition, how: str, what: str, fix: str
) -> CouplingChange:
    return CouplingChange(
        coupling.kind,
        coupling.target,
        "look",
        how,
        what,
        (coupling.place,),
        side_of(sides.old, old),
        side_of(sides.new, new),
        fix,
    )


def lost(coupling: Coupling, sides: Sides, old: Definition, new: Absent) -> CouplingChange:
    """A name that the newer release lacks: where it is now, or what is like it."""
    homes: tuple[Address, ...] = ()
    if old.address.path:
        homes = sides.moved_to(old.address)
    elif (module := _moved_module(sides, coupling.target)) is not None:
        fix = f"write {module}"
        return CouplingChange(
            coupling.kind,
            coupling.target,
            "look" if coupling.guarded else "breaks",
            "moved",
            f"the module is gone; its names are in {module}",
            (coupling.place,),
            Side(coupling.target, sides.old.place(coupling.target, None)),
            Side(module, sides.new.place(module, None)),
            fix,
        )
    verdict: Verdict = "look" if coupling.guarded else "breaks"
    goes_on = "; the plugin goes on without it" if coupling.guarded else ""
    if homes:
        home = homes[0]
        found = sides.new.lookup.find(home)
        there = side_of(sides.new, found) if isinstance(found, Definition) else Side(str(home))
        fix = f"write from {home.module} import {home.path[0]}"
        if len(homes) > 1:
            fix += f", or from {' or '.join(one.module for one in homes[1:3])}"
        return CouplingChange(
            coupling.kind,
            coupling.target,
            verdict,
            "moved",
            f"it is in {home.module} now{goes_on}",
            (coupling.place,),
            side_of(sides.old, old),
            there,
            fix,
        )
    fix = (
        f"like it: {', '.join(new.nearest[:3])}"
        if new.nearest
        else "look in the newer release for what took its place"
    )
    return CouplingChange(
        coupling.kind,
        coupling.target,
        verdict,
        "gone",
        f"it is gone{goes_on}: {new.why}",
        (coupling.place,),
        side_of(sides.old, old),
        None,
        fix,
    )


def _moved_module(sides: Sides, dotted: str) -> str | None:
    """The module that defines what the module defined, if there is one that surely does."""
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


def side_of(release: Release, found: Answer) -> Side | None:
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
    text = " ".join(text.split())
    return Side(text if len(text) < 400 else f"{text[:397]}...", release.place(found.address.module, node))


def _constant(found: Definition) -> object:
    return repr(found.node.value) if isinstance(found.node, ast.Constant) else None
