"""Texts: variables of the environment, entry-point groups, server arguments, names of parts."""

from __future__ import annotations

from sglang_platform.core.installed.address import nearest
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side
from sglang_platform.devtools.upgrade.sides import Sides
from sglang_platform.devtools.upgrade.tables import reading_of, tables_named, tables_with, text_at

__all__ = ["ARGUMENTS", "text_change"]

ARGUMENTS = "sglang.srt.server_args.ServerArgs"
"""The record of the host's arguments."""


def text_change(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    match coupling.kind:
        case "environment":
            return _variable(coupling, sides)
        case "group":
            return _group(coupling, sides)
        case "argument":
            return _argument(coupling, sides)
        case "name":
            return _name(coupling, sides)
    return None


def _variable(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    old, new = reading_of(sides.old, coupling.target), reading_of(sides.new, coupling.target)
    if old is None:
        return None
    before = Side(f"{coupling.target} = {old.default}" if old.default else coupling.target, old.place)
    if new is None:
        fix = "leave it out, or look for what took its place"
        return CouplingChange(
            "environment",
            coupling.target,
            "breaks",
            "gone",
            f"{sides.new.label} does not read it",
            (coupling.place,),
            before,
            None,
            fix,
        )
    after = Side(f"{coupling.target} = {new.default}" if new.default else coupling.target, new.place)
    if new.deprecated_for is not None and old.deprecated_for is None:
        fix = (
            f"write {new.deprecated_for}"
            if new.deprecated_for
            else "leave it out before a later release refuses it"
        )
        return CouplingChange(
            "environment",
            coupling.target,
            "look",
            "deprecated",
            f"{sides.new.label} says that it is deprecated",
            (coupling.place,),
            before,
            after,
            fix,
        )
    if old.default and new.default and old.default != new.default:
        what = f"its default is {new.default}, and was {old.default}"
        fix = "look at whether the plugin relies on the default"
        return CouplingChange(
            "environment", coupling.target, "look", "default", what, (coupling.place,), before, after, fix
        )
    return None


def _group(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    old, new = text_at(sides.old, coupling.target), text_at(sides.new, coupling.target)
    if old is None or new is not None:
        return None
    what = f"{sides.new.label} does not look for plugins in this group"
    return CouplingChange(
        "group",
        coupling.target,
        "breaks",
        "gone",
        what,
        (coupling.place,),
        Side(coupling.target, old),
        None,
        "move the entry point to the group that the newer release reads",
    )


def _argument(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """A flag of the command line; `server_args.name` is a field of the record."""
    field = coupling.target.lstrip("-").replace("-", "_")
    pair = sides.pair(ARGUMENTS)
    old = pair.old.find(field) if pair is not None and pair.old is not None else None
    new = pair.new.find(field) if pair is not None and pair.new is not None else None
    was = (
        sides.old.place(old.module.name, old.node) if old is not None else text_at(sides.old, coupling.target)
    )
    now = (
        sides.new.place(new.module.name, new.node) if new is not None else text_at(sides.new, coupling.target)
    )
    if was is None or now is not None:
        return None
    names = pair.new.names() if pair is not None and pair.new is not None else {}
    like = [f"--{one.replace('_', '-')}" for one in nearest(field, names)]
    fix = f"like it: {', '.join(like)}" if like else "leave it out"
    return CouplingChange(
        "argument",
        coupling.target,
        "breaks",
        "gone",
        f"{sides.new.label} does not take {coupling.target}",
        (coupling.place,),
        Side(coupling.target, was),
        None,
        fix,
    )


def _name(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """A name that a table of the older release has and the same table of the newer one lacks."""
    for table in tables_with(sides.old, coupling.target, coupling.subject):
        if tables_with(sides.new, coupling.target, coupling.subject):
            return None
        later = tables_named(sides.new, table.name)
        if later or coupling.subject not in (table.name,):
            names = later[0].names if later else ()
            like = nearest(coupling.target, names)
            fix = (
                f"like it: {', '.join(like)}"
                if like
                else f"known now: {', '.join(names[:8])}"
                if names
                else None
            )
            after = Side(f"{table.name}: {', '.join(names[:12])}", later[0].place) if later else None
            return CouplingChange(
                "name",
                coupling.target,
                "breaks",
                "gone",
                f"{table.name} does not have {coupling.target!r} any more",
                (coupling.place,),
                Side(f"{table.name}: {', '.join(table.names[:12])}", table.place),
                after,
                fix,
            )
    return None
