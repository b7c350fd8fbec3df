"""The upgrade of one plugin between two releases, and its report as text."""

from __future__ import annotations

import logging
from collections import Counter

from rich.text import Text

from sglang_platform.core.cli.page import Page
from sglang_platform.devtools.source.module import without_collecting
from sglang_platform.devtools.upgrade.compare import changes_of
from sglang_platform.devtools.upgrade.compare_hooks import HookAnswers
from sglang_platform.devtools.upgrade.coupling import KINDS
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import read_couplings
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange, Upgrade, merged
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["print_upgrade", "upgrade_of"]

_STYLES = {"breaks": "bold red", "look": "yellow", "fits": "green"}
_MOST_UNREAD = 12
_MOST_PLACES = 4

_log = logging.getLogger(__name__)


def upgrade_of(plugin: PluginSource, old: Release, new: Release) -> Upgrade:
    """The report on a plugin: reads it and both releases, and compares its couplings."""
    _log.info("comparing %s and %s for %s", old.label, new.label, plugin.label)
    with without_collecting():
        sides = Sides(old, new)
        couplings = read_couplings(plugin, sides)
        hooks = HookAnswers(couplings.hooks, sides)
        found = [change for one in couplings.found for change in changes_of(one, sides, hooks)]
        found = [one for one in found if not _told_as_patch(one, found)]
    counts = Counter(one.kind for one in couplings.found)
    notes = [] if couplings.found else [f"{plugin.label} names nothing of {old.label.partition(' ')[0]}'s"]
    return Upgrade(
        plugin.label,
        old.label,
        new.label,
        merged(found),
        {kind: counts[kind] for kind in KINDS if counts[kind]},
        (*couplings.unread, *_not_read(plugin, old, new)),
        tuple(notes),
    )


def _not_read(plugin: PluginSource, old: Release, new: Release) -> list[tuple[str, str]]:
    """The requested files that could not be read; their contents may have changed."""
    told = [(plugin.label, why) for why in plugin.tree.not_read(unparsed=False)]
    told += [(release.label, why) for release in (old, new) for why in release.tree.not_read()]
    return list(dict.fromkeys(told))


def _told_as_patch(one: CouplingChange, found: list[CouplingChange]) -> bool:
    """True if the name is patched at the same line, so that the patch's row covers it."""
    name = one.target.rpartition(".")[2]
    return one.kind in ("import", "field") and any(
        other.kind == "patch" and other.places == one.places and other.target.rpartition(".")[2] == name
        for other in found
    )


def print_upgrade(out: Page, upgrade: Upgrade, *, everything: bool = False) -> None:
    """Print the report; `everything`: with rows that fit both releases, and all unexamined places."""
    out.print(Text(f"{upgrade.plugin}: {upgrade.old} to {upgrade.new}", style="bold"))
    shown = [one for one in upgrade.changes if everything or one.verdict != "fits"]
    for one in shown:
        _print_change(out, one)
    fitting = upgrade.count("fits")
    if fitting and not everything:
        out.print(Text(f"{fitting} more changed, and what is written goes with both (--all shows them)"))
    unread = upgrade.unread if everything else upgrade.unread[:_MOST_UNREAD]
    for where, why in unread:
        out.print(Text(f"not looked at: {where}: {why}", style="yellow"))
    if len(unread) < len(upgrade.unread):
        out.print(
            Text(
                f"not looked at: {len(upgrade.unread) - len(unread)} places more (--all shows them)",
                style="yellow",
            )
        )
    for note in upgrade.notes:
        out.print(Text(note))
    total = sum(upgrade.looked.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in upgrade.looked.items())
    counts = ", ".join(f"{upgrade.count(one)} {one}" for one in ("breaks", "look", "fits"))
    out.print(Text(f"{total} couplings" + (f" ({kinds})" if kinds else "")))
    out.print(
        Text(f"{len(upgrade.changes)} changed: {counts}" if upgrade.changes else "none of them changed")
    )


def _print_change(out: Page, one: CouplingChange) -> None:
    places = [f"{place}" + (f"  {place.text}" if place.text else "") for place in one.places[:_MOST_PLACES]]
    if len(one.places) > _MOST_PLACES:
        places.append(f"and {len(one.places) - _MOST_PLACES} more")
    sides = (
        f"{side.text}" + (f"  ({side.place})" if side.place else "") if side is not None else None
        for side in (one.old, one.new)
    )
    texts = (one.what, Text("\n".join(places), style="dim"), *sides, one.fix)
    head = Text(f"{one.verdict}: ", style=_STYLES[one.verdict]) + Text(f"{one.kind} {one.target}")
    out.block(head, zip(("what", "line", "old", "new", "fix"), texts, strict=True), least=len("what:"))
