"""Compares targets of hooks and patches, by running the hook check on each release."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.hooks.targets import parse
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.hook_check.check import CheckedHook, check
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.answers import Answer, Definition, Unsure
from sglang_platform.devtools.source.signatures import FunctionNode, signature_of, what_differs
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict, change_of
from sglang_platform.devtools.upgrade.seen import side_of
from sglang_platform.devtools.upgrade.shapes import kind_of_function, kind_of_member
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["HookAnswers"]


class HookAnswers:
    """The hook check's rows for all hooks of a plugin on both releases, computed on first use."""

    def __init__(self, hooks: Sequence[WantedHook], sides: Sides) -> None:
        self._hooks, self._sides = [one for one in hooks if _parses(one)], sides

    @functools.cached_property
    def _rows(self) -> dict[WantedHook, tuple[CheckedHook, CheckedHook]]:
        """For each hook: the row on the older release, and on the newer."""
        old, new = self._sides.old.tree, self._sides.new.tree
        rows = zip(check(self._hooks, old), check(self._hooks, new), strict=True)
        return {before.wanted: (before, after) for before, after in rows}

    def change(self, coupling: Coupling) -> CouplingChange | None:
        """The change between the releases; None if the hook had the same problem before."""
        wanted, sides = coupling.hook, self._sides
        rows = self._rows.get(wanted) if wanted is not None else None
        if wanted is None or rows is None:
            return None
        before, after = rows
        if before.verdict in ("missing", "moved", "unknown"):
            return None  # not for the older release
        dotted = wanted.target.replace(":", ".")
        old, new = sides.find(dotted)
        was, now = _side(sides.old, old), _side(sides.new, new)
        if after.verdict == "exists":
            what = self._difference(dotted)
            fix = "nothing: the hook goes with both"
            return change_of(coupling, "fits", "changed", what, was, now, fix) if what else None
        if after.is_new:
            module, _, name = dotted.rpartition(".")
            what = f"it is gone: {module} has no {name!r} any more, and nothing of the host calls what is written there"
            return change_of(coupling, "breaks", "gone", what, was, now, _instead(after, now))
        if after.verdict in ("moved", "unknown"):
            after = self._followed(dotted, after)
        if (after.verdict, _plight(after)) == (before.verdict, _plight(before)) or after.verdict == "unknown":
            return None
        if after.moved_to and now is None:
            now = _side(sides.new, sides.new.find(after.moved_to[0].replace(":", ".")))
        verdict: Verdict = "breaks" if wanted.required else "look"
        how = {"missing": "gone", "moved": "moved", "bypassed": "bypassed"}.get(after.verdict, "changed")
        return change_of(coupling, verdict, how, after.why, was, now, _instead(after, now))

    def _followed(self, dotted: str, after: CheckedHook) -> CheckedHook:
        """The newer release's row of a target that it does not show, with what the older release tells: a module that
        already defined the name there is no new home, and what the older release defines cannot be unclear."""
        old, new = self._sides.find(dotted)
        if after.verdict == "unknown":
            if not isinstance(old, Definition) or not old.nodes or not isinstance(new, Unsure):
                return after
            why = f"{self._sides.old.label} defines it, no class or module of {self._sides.new.label} does"
            after = after._replace(why=why)
        address = self._sides.old.address(dotted)
        homes = self._sides.moved_to(address) if address is not None else ()
        return after._replace(verdict="moved" if homes else "missing", moved_to=tuple(map(str, homes)))

    def _difference(self, dotted: str) -> str | None:
        """The change of a target's kind or parameters; None without one. A class is compared by its `__init__`;
        annotations, the values of defaults, and values are not compared."""
        old, new = self._sides.find(dotted)
        if not isinstance(old, Definition) or not isinstance(new, Definition):
            return None
        was, now = _kind(self._sides.old, old), _kind(self._sides.new, new)
        if was is not None and now is not None and was != now:
            return f"it was {was}, and is {now}"
        if isinstance(old.node, ast.ClassDef):
            change = self._difference(f"{dotted}.__init__")
            return f"for __init__, {change}" if change else None
        if isinstance(old.node, FunctionNode) and isinstance(new.node, FunctionNode):
            return what_differs(signature_of(old.node.args), signature_of(new.node.args))
        return None


def _side(release: Release, found: Answer) -> Side | None:
    return side_of(release, found) if isinstance(found, Definition) else None


def _kind(release: Release, found: Definition) -> str | None:
    """The kind of a function, method or class in words; None for a value."""
    kind, path = kind_of_function(found.node), found.address.path
    owner = release.class_at(Address(found.address.module, path[:-1])) if kind and len(path) > 1 else None
    member = owner.find(path[-1]) if owner is not None else None
    return kind_of_member(member) if member is not None else kind


def _plight(row: CheckedHook) -> str:
    """The reason without the example call, whose line differs between releases."""
    return row.why.partition("; the host calls ")[0]


def _parses(hook: WantedHook) -> bool:
    try:
        parse(hook.target)
    except PlatformError:
        return False
    return True


def _instead(row: CheckedHook, new: Side | None) -> str:
    if row.moved_to:
        return f"hook {' or '.join(row.moved_to[:2])}"
    if row.nearest:
        return f"like it: {', '.join(row.nearest[:3])}"
    if row.verdict == "changed" and new is not None:
        return "write the hook for the newer parameters"
    if row.verdict == "bypassed":
        return "hook what the newer release calls instead"
    return "look in the newer release for what took its place"
