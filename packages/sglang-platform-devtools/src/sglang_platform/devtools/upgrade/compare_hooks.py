"""Compares targets of hooks and patches, by running the hook check on each release."""

from __future__ import annotations

from collections.abc import Sequence

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.hooks.targets import parse
from sglang_platform.devtools.hook_check.check import CheckedHook, check
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.upgrade.compare_names import side_of
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.rows import CouplingChange, Side, Verdict, change_of
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["HookAnswers"]

_GOOD = ("exists",)


class HookAnswers:
    """The hook check's rows for all hooks of a plugin on both releases, computed on first use."""

    def __init__(self, hooks: Sequence[WantedHook], sides: Sides) -> None:
        self._hooks, self._sides = list(hooks), sides
        self._rows: dict[WantedHook, tuple[CheckedHook, CheckedHook, CheckedHook]] | None = None

    def change(self, coupling: Coupling) -> CouplingChange | None:
        """The change between the releases; None if the hook had the same problem before."""
        wanted, sides = coupling.hook, self._sides
        if wanted is None:
            return None
        rows = self._all().get(wanted)
        if rows is None:
            return None
        before, after, since = rows
        if before.verdict in ("missing", "moved", "unknown"):
            return None  # not for the older release
        old, new = sides.find(wanted.target.replace(":", "."))
        found = [side_of(sides.old, old), side_of(sides.new, new)]
        verdict: Verdict
        how = {"missing": "gone", "moved": "moved", "bypassed": "bypassed"}.get(after.verdict, "signature")
        if after.is_new:
            module, _, name = wanted.target.replace(":", ".").rpartition(".")
            how, verdict = "gone", "breaks"
            what = f"it is gone: {module} has no {name!r} any more, and nothing of the host calls what is written there"
            fix = _instead(after, found[1])
        elif after.verdict in ("exists", "unknown"):
            if since.verdict != "changed":
                return None
            what, verdict, fix = since.why, "fits", "nothing: the hook goes with both"
        elif (after.verdict, _plight(after)) == (before.verdict, _plight(before)):
            return None
        else:
            what, verdict = after.why, "breaks" if wanted.required else "look"
            fix = _instead(after, found[1])
        if after.moved_to and found[1] is None:
            homes = [sides.new.find(one.replace(":", ".")) for one in after.moved_to[:1]]
            found[1] = next((side_of(sides.new, one) for one in homes if isinstance(one, Definition)), None)
        return change_of(coupling, verdict, how, what, found[0], found[1], fix)

    def _all(self) -> dict[WantedHook, tuple[CheckedHook, CheckedHook, CheckedHook]]:
        """For each changed hook: the row on the older release, on the newer, and on the newer since the older."""
        if self._rows is None:
            self._rows = {}
            old, new = self._sides.old.tree, self._sides.new.tree
            compared = check([one for one in self._hooks if _parses(one)], new, old)
            changed = [one for one in compared if one.verdict not in _GOOD]
            wanted = [one.wanted for one in changed]
            for rows in zip(check(wanted, old), check(wanted, new), changed, strict=True):
                self._rows[rows[0].wanted] = rows
        return self._rows


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
