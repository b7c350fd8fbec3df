"""Compares strings: environment variables, entry-point groups, server arguments, names of parts."""

from __future__ import annotations

from sglang_platform.core.installed.address import nearest
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.members import HostClass
from sglang_platform.devtools.upgrade.readings import reading_of, text_at
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, change_of
from sglang_platform.devtools.upgrade.sides import Sides

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
    name = coupling.target
    old, new = reading_of(sides.old, name), reading_of(sides.new, name)
    if old is None:
        return None
    before = Side(f"{name} = {old.default}" if old.default else name, old.place)
    if new is None:
        what, fix = f"{sides.new.label} does not read it", "leave it out, or look for what took its place"
        return change_of(coupling, "breaks", "gone", what, before, None, fix)
    after = Side(f"{name} = {new.default}" if new.default else name, new.place)
    if new.deprecated_for is not None and old.deprecated_for is None:
        what, fix = f"{sides.new.label} says that it is deprecated", f"write {new.deprecated_for}"
        fix = fix if new.deprecated_for else "leave it out before a later release refuses it"
        return change_of(coupling, "look", "deprecated", what, before, after, fix)
    if old.default and new.default and old.default != new.default:
        what = f"its default is {new.default}, and was {old.default}"
        fix = "look at whether the plugin relies on the default"
        return change_of(coupling, "look", "default", what, before, after, fix)
    return None


def _group(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    old, new = text_at(sides.old, coupling.target), text_at(sides.new, coupling.target)
    if old is None or new is not None:
        return None
    what = f"{sides.new.label} does not look for plugins in this group"
    fix = "move the entry point to the group that the newer release reads"
    return change_of(coupling, "breaks", "gone", what, Side(coupling.target, old), None, fix)


def _argument(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """The change for a command-line flag. Uses of `server_args.name` are couplings to a field of the record."""
    field = coupling.target.lstrip("-").replace("-", "_")
    old = sides.old.class_named(ARGUMENTS)
    new = sides.counterpart(old)
    was = _argument_at(sides.old, old, field, coupling.target)
    if was is None or _argument_at(sides.new, new, field, coupling.target) is not None:
        return None
    names = new.names() if new is not None else {}
    like = [f"--{one.replace('_', '-')}" for one in nearest(field, names)]
    what = f"{sides.new.label} does not take {coupling.target}"
    fix = f"like it: {', '.join(like)}" if like else "leave it out"
    return change_of(coupling, "breaks", "gone", what, Side(coupling.target, was), None, fix)


def _argument_at(release: Release, record: HostClass | None, field: str, flag: str) -> str | None:
    found = record.find(field) if record is not None else None
    return release.place(found.module.name, found.node) if found is not None else text_at(release, flag)


def _name(coupling: Coupling, sides: Sides) -> CouplingChange | None:
    """The change for a name of a part that the older release spells and the newer one does not."""
    old, new = text_at(sides.old, coupling.target), text_at(sides.new, coupling.target)
    if old is None or new is not None:
        return None
    what = f"{sides.new.label} does not name {coupling.target!r} any more"
    before = Side(f"{coupling.subject}: {coupling.target}", old)
    return change_of(coupling, "breaks", "gone", what, before, None, "look for what took its place")
