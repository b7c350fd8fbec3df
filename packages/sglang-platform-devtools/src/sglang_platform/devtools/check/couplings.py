"""Checks a plugin against one release: missing names, rejected calls, failing hooks."""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.errors import HookTargetError
from sglang_platform.core.hooks.targets import parse
from sglang_platform.devtools.check.remark import Level, Remark
from sglang_platform.devtools.hook_check.check import check as check_hooks
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.answers import Absent, Definition
from sglang_platform.devtools.source.signatures import decorators
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import Couplings
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.seen import Seen, seen

__all__ = ["examine_couplings", "examine_hooks", "unclear_couplings"]


def examine_couplings(couplings: Couplings, host: Release) -> Iterator[Remark]:
    """The remarks on uses of the host, except hooks. Lines that do not run beside this release have none."""
    for one in couplings.found:
        if one.reach.kind == "never":
            continue
        remark = _remark(one, host)
        if remark is not None and one.reach.kind != "unsure":
            yield remark


def unclear_couplings(couplings: Couplings, host: Release) -> Iterator[tuple[str, str]]:
    """(place, why) of each use that fails if it runs, and of which the source does not show whether it does."""
    for one in couplings.found:
        if one.reach.kind == "unsure":
            remark = _remark(one, host)
            if remark is not None:
                yield str(one.place), f"{remark.what}; not known: {one.reach.why}"


def _remark(one: Coupling, host: Release) -> Remark | None:
    match one.kind:
        case "import":
            return _import(one, host)
        case "call" | "construct":
            return _call(one, host)
        case "unpack":
            return _unpack(one, host)
    return None


def _import(one: Coupling, host: Release) -> Remark | None:
    answer = host.find(one.target)
    if not isinstance(answer, Absent):
        return None
    what, why = f"{host.label} has no {one.target}", answer.why
    level: Level = "problem"
    if one.subject:
        level, what = "note", f"{what}, which {one.subject} names"
    elif one.reach.kind == "survived" and one.reach.why:
        level, why = "warning", f"{why}; the import fails in silence, and {one.reach.why}"
    elif one.reach.kind == "survived":
        level, what = "note", f"{what} (the plugin goes on without it)"
    else:
        why = f"{why}; {one.failure or 'the import fails'}"
    return Remark(
        "couplings", "name-missing", level, what, one.place.file, one.place.line, why, _fix(one, answer, host)
    )


def _fix(one: Coupling, answer: Absent, host: Release) -> str | None:
    """Where the name is now, else similar names."""
    name, part = one.target.rpartition(".")[2], ".".join(one.target.split(".")[:2])
    homes = sorted(host.tree.defining(name), key=lambda home: (not home.startswith(part), home))
    if homes:
        return f"import it from {' or '.join(homes[:3])}"
    near = [name.replace(":", ".") for name in answer.nearest[:2]]
    if near:
        return f"did you mean {' or '.join(near)}?"
    if one.reach.kind == "survived" or one.subject:
        return None
    return "write it without, or guard it for the releases that have it"


def _call(one: Coupling, host: Release) -> Remark | None:
    found = seen(one, host)
    if not isinstance(found, Seen) or found.fault is None or one.call is None or _is_decorated(one, host):
        return None
    what = f"{host.label} does not take the call {one.call.text}"
    why = f"{found.fault}; {one.target} takes {found.takes}"
    return _of_line(one, "call-not-taken", what, why, found.fix)


def _is_decorated(one: Coupling, host: Release) -> bool:
    """True for a function whose decorator may take other arguments."""
    answer = host.find(one.target) if one.owner is None else None
    node = answer.node if isinstance(answer, Definition) else None
    return node is not None and bool(decorators(node))


def _unpack(one: Coupling, host: Release) -> Remark | None:
    found = seen(one, host)
    if not isinstance(found, Seen) or found.fault is None:
        return None
    gives = found.facts["number of values"]
    what = f"{one.values} values are taken from {one.target}, and in {host.label} it gives {gives}"
    return _of_line(one, "values-differ", what, one.place.text, found.fix)


def _of_line(one: Coupling, id_: str, what: str, why: str, fix: str | None) -> Remark:
    level: Level = "note" if one.reach.kind == "survived" else "problem"
    return Remark("couplings", id_, level, what, one.place.file, one.place.line, why, fix)


def examine_hooks(
    couplings: Couplings, plugin: PluginSource, host: Release, kind: str = "runs"
) -> Iterator[Remark]:
    """Every hook and patch whose registration runs, by the rules of `hooks check`."""
    wanted = [one.hook for one in couplings.found if one.hook is not None and one.reach.kind == kind]
    parsed = []
    for hook in wanted:
        try:
            parse(hook.target)
            parsed.append(hook)
        except HookTargetError as error:
            yield _of_hook(hook, plugin, "malformed", "problem", error.what, error.why, error.fix)
    for row in check_hooks(parsed, host.tree):
        if row.verdict != "exists":
            level: Level = "problem" if row.is_problem else "note" if row.verdict == "unknown" else "warning"
            homes = row.moved_to or row.nearest
            fix = f"did you mean {' or '.join(homes[:2])}?" if homes else None
            what = f"the hook on {row.wanted.target}: {row.verdict}"
            yield _of_hook(row.wanted, plugin, row.verdict, level, what, row.why or None, fix)


def _of_hook(
    hook: WantedHook,
    plugin: PluginSource,
    id_: str,
    level: Level,
    what: str,
    why: str | None,
    fix: str | None,
) -> Remark:
    place = plugin.place_of(hook.where or "")
    return Remark("hooks", f"hook-{id_}", level, what, place.file, place.line, why, fix)
