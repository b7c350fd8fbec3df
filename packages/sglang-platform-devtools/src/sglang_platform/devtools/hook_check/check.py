"""Checks hooks against a release of the host, from its sources alone: nothing is imported or run.

    host = open_host("sglang-0.5.20-cp311-....whl", {"sglang"})
    for row in check([WantedHook("sglang.srt.managers.scheduler:Scheduler.run_batch")], host):
        print(row.verdict, row.why)

The parts:

    check    one row per target                  moved     the same name in another module
    fit      can the hook take the arguments     callers   does any caller reach it
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Literal, NamedTuple

from sglang_platform.core.hooks.targets import Target, parse
from sglang_platform.core.installed.address import Address, nearest
from sglang_platform.core.spelling import nearest as similar
from sglang_platform.devtools.hook_check.callers import Callers
from sglang_platform.devtools.hook_check.fit import misfit
from sglang_platform.devtools.hook_check.moved import search
from sglang_platform.devtools.hook_check.on_host import (
    call_not_taken,
    cut_at_its_last_dot,
    fault_of_registry,
)
from sglang_platform.devtools.hook_check.returns import other_shape
from sglang_platform.devtools.registrations import WantedHook, WrittenHook
from sglang_platform.devtools.source.answers import Absent, Definition, Unsure
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import modules_in, without_collecting
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["CheckedHook", "Verdict", "check", "misspelt"]

_log = logging.getLogger(__name__)

Verdict = Literal["exists", "changed", "bypassed", "moved", "missing", "unknown"]


class CheckedHook(NamedTuple):
    """The result for one target in the host."""

    wanted: WantedHook
    verdict: Verdict
    why: str = ""
    defined_at: str | None = None
    """The definition as ``pkg.mod:Class.attr``; differs from the target if that is re-exported or inherited."""
    line: int | None = None
    moved_to: tuple[str, ...] = ()
    """For ``moved``: the new addresses, the likeliest first."""
    nearest: tuple[str, ...] = ()
    """For ``missing``: similar names."""
    notes: tuple[str, ...] = ()
    is_new: bool = False
    """True for an attribute that the plugin adds to the host: the host has no such name and none like it."""

    @property
    def is_problem(self) -> bool:
        """True for a required hook that would fail or take no effect; False if the sources do not show it."""
        return self.wanted.required and self.verdict not in ("exists", "unknown")


def misspelt(target: str, existing: Iterable[str]) -> str | None:
    """The existing target whose last name differs from that of `target` by a letter or two; None without one."""
    by_name = {_last(one): one for one in existing}
    found = similar(_last(target), by_name, cutoff=0.88)
    return by_name[found] if found is not None else None


def _last(target: str) -> str:
    return target.replace(":", ".").rpartition(".")[2]


def check(hooks: Iterable[WantedHook], host: SourceTree) -> list[CheckedHook]:
    """One row per hook, in order.

    ``exists``    the module has the attribute, and a caller can reach it
    ``changed``   the hook does not fit: it cannot take the target's arguments, or gives another number of values
    ``bypassed``  it exists, and no caller reaches it
    ``moved``     the module lacks it; the same qualified name is defined in another module
    ``missing``   the module lacks it, and no other module defines its name
    ``unknown``   the sources do not show it: another distribution, or names that are created at run time

    Raises HookTargetError for a malformed target.
    """
    wanted = [(one, parse(one.target)) for one in hooks]
    _log.info("checking %d hooks on %s", len(wanted), host.label)
    checker = _Checker(host)
    with without_collecting():
        return [checker.row(one, target) for one, target in wanted]


class _Checker:
    def __init__(self, host: SourceTree) -> None:
        self._host = host
        self._lookup = Lookup(host, Lookup(Environment()))
        self._callers = Callers(host, self._lookup)

    def row(self, wanted: WantedHook, target: Target) -> CheckedHook:
        top = target.key.partition(".")[0]
        if not self._host.has(top) and not nearest(top, self._host.top_packages):
            return CheckedHook(wanted, "unknown", f"{top!r} is not part of {self._host.label}")
        address = _split(target, self._host)
        if isinstance(address, Absent):
            return self._lost(wanted, target, None, address)
        answer = self._lookup.find(address)
        if isinstance(answer, Absent):
            return self._lost(wanted, target, address, answer)
        if isinstance(answer, Unsure):
            return CheckedHook(wanted, "unknown", answer.why)
        return self._found(wanted, target, answer)

    def _lost(
        self, wanted: WantedHook, target: Target, address: Address | None, absent: Absent
    ) -> CheckedHook:
        unclear = address is None or (
            target.module is None and absent.holder is None and len(address.path) > 1
        )
        lost = _guess(target) if unclear or address is None else address
        found = search(self._host, self._lookup, lost, absent.holder, None)
        if found.homes:
            return CheckedHook(wanted, "moved", absent.why, moved_to=tuple(map(str, found.homes)))
        why = "; ".join(one for one in (absent.why, found.why) if one)
        names = tuple(dict.fromkeys((*found.nearest, *absent.nearest)))
        if wanted.written and not names:
            why = f"{why}: a name of the plugin's own, as far as can be told"
            return CheckedHook(wanted, "unknown", why, is_new=True)
        return CheckedHook(wanted, "missing", why, nearest=names)

    def _found(self, wanted: WantedHook, target: Target, definition: Definition) -> CheckedHook:
        row = CheckedHook(
            wanted, "exists", defined_at=str(definition.address), notes=tuple(_notes(definition))
        )
        node = definition.node
        row = row._replace(line=getattr(node, "lineno", None))
        if wanted.hook is not None:
            row = self._fitted(row, wanted.hook, target, definition)
            if row.verdict != "exists":
                return row
        why = self._callers.bypass(definition)
        return row._replace(verdict="bypassed", why=why) if why else row

    def _fitted(
        self, row: CheckedHook, hook: WrittenHook, target: Target, definition: Definition
    ) -> CheckedHook:
        """The row of a hook whose function is known: checks its parameters and number of values against the target."""
        wanted, found, call = row.wanted, misfit(definition, hook), None
        why = None
        if wanted.on_host and not wanted.written:
            why = cut_at_its_last_dot(wanted.target) or fault_of_registry(wanted, target, definition)
        if (
            found.by_parameters or not wanted.written
        ):  # a monkey-patch is no hook of ours: Python accepts any kind
            why = why or found.why
        if why and found.by_parameters and why == found.why and wanted.on_host:
            call = call_not_taken(wanted, definition, self._host)
            if call is None:
                note = (
                    f"the hook {hook.name} does not take every call: {why}; no call in the host passes that"
                )
                row, why = row._replace(notes=(*row.notes, note)), None
        why = why or other_shape(definition.node, hook, self._host.label)
        if why:
            shown = f"; the host calls {call}" if call else ""
            return row._replace(verdict="changed", why=f"the hook {hook.name} does not fit: {why}{shown}")
        if found.by_position:
            note = f"the hook takes {', '.join(found.by_position)} by position only"
            row = row._replace(notes=(*row.notes, note))
        return row


def _guess(target: Target) -> Address:
    """The address of a target whose module is gone: as written, or by capitalisation."""
    if target.module is not None:
        return Address(target.module, target.path)
    parts = target.key.split(".")
    count = next((i for i, part in enumerate(parts[:-1]) if part[:1].isupper()), len(parts) - 1)
    return Address(".".join(parts[:count]), tuple(parts[count:]))


def _split(target: Target, host: SourceTree) -> Address | Absent:
    """The target's module and attribute path. The module is the longest prefix that exists, never the whole target."""
    parts = target.key.split(".")
    first = len(target.module.split(".")) if target.module else 1
    count = modules_in(parts[:-1], host.has)
    if count < first:
        above = ".".join(parts[:count])
        prefix = f"{above}." if above else ""
        close = nearest(parts[count], host.children(above))
        where = f"the package {above!r} has" if above else f"{host.label} has"
        return Absent(f"{where} no module {parts[count]!r}", tuple(prefix + name for name in close))
    return Address(".".join(parts[:count]), tuple(parts[count:]))


def _notes(definition: Definition) -> list[str]:
    if not definition.via:
        return []
    names = " -> ".join(map(str, (*definition.via, definition.address)))
    return [f"imported: {names}"]
