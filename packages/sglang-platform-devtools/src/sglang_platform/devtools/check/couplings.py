"""Checks a plugin against one release: missing names, rejected calls, failing hooks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sglang_platform.core.errors import HookTargetError
from sglang_platform.core.hooks.targets import parse
from sglang_platform.devtools.check.remark import Level, Remark
from sglang_platform.devtools.hook_check.check import CheckedHook, misspelt
from sglang_platform.devtools.hook_check.check import check as check_hooks
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.answers import Absent, Definition
from sglang_platform.devtools.source.signatures import decorators
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import Couplings
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.seen import Seen, seen
from sglang_platform.devtools.written import does_nothing

__all__ = ["examine_couplings", "examine_hooks", "unclear_couplings"]


def examine_couplings(couplings: Couplings, host: Release) -> Iterator[Remark]:
    """The remarks on uses of the host, except hooks. Lines that do not run beside this release have none."""
    for one in couplings.found:
        if one.reach.kind == "never":
            continue
        remark = _remark(one, host)
        if remark is not None and one.reach.kind != "unsure":
            yield remark


def unclear_couplings(couplings: Couplings, plugin: PluginSource, host: Release) -> Iterator[tuple[str, str]]:
    """(place, why) of each use that fails if it runs, and of which the source does not show whether it does."""
    for one in couplings.found:
        if one.reach.kind == "unsure":
            remark = _remark(one, host)
            if remark is not None:
                yield str(one.place), f"{remark.what}; not known: {one.reach.why}"
    for hook in examine_hooks(couplings, plugin, host, "unsure"):
        yield hook.where, hook.what


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
        "couplings",
        "host-import-missing",
        level,
        what,
        one.place.file,
        one.place.line,
        why,
        _fix(one, answer, host),
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
    return _of_line(one, "host-call-refused", what, why, found.fix)


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
    return _of_line(one, "override-values", what, one.place.text, found.fix)


def _of_line(one: Coupling, id_: str, what: str, why: str, fix: str | None) -> Remark:
    level: Level = "note" if one.reach.kind == "survived" else "problem"
    return Remark("couplings", id_, level, what, one.place.file, one.place.line, why, fix)


def examine_hooks(
    couplings: Couplings, plugin: PluginSource, host: Release, kind: str = "runs"
) -> Iterator[Remark]:
    """Every hook and patch whose registration runs, by the rules of `hooks check`.

    An optional hook on a missing target is a warning if it is nearly spelt as a name that no hook of the plugin has.
    """
    wanted = [one.hook for one in couplings.found if one.hook is not None and one.reach.kind == kind]
    parsed = []
    for hook in wanted:
        try:
            parse(hook.target)
            parsed.append(hook)
        except HookTargetError as error:
            yield _of_hook(hook, plugin, "malformed", "problem", error.what, error.why, error.fix)
    hooked = {one.target.replace(":", ".") for one in wanted}
    for row in check_hooks(parsed, host.tree):
        if row.verdict == "exists" and row.wanted.target.replace(":", ".").endswith(_ARGUMENTS):
            yield from _after_arguments(row.wanted, plugin, host)
        if row.verdict == "exists" or row.is_new:
            continue
        near = [one for one in row.nearest if one.replace(":", ".") not in hooked]
        is_misspelt = row.verdict == "missing" and misspelt(row.wanted.target, near) is not None
        level: Level = "problem" if row.is_problem else "warning" if is_misspelt else "note"
        kind_of_change = "the function written to" if row.wanted.written else "the hook on"
        what = f"{kind_of_change} {row.wanted.target} {_VERDICTS[row.verdict]}"
        yield _of_hook(row.wanted, plugin, row.verdict, level, what, row.why or None, _fix_of_hook(row))


_VERDICTS = {
    "changed": "does not fit",
    "bypassed": "takes no effect",
    "moved": "is not where SGLang has it now",
    "missing": "is on a name that SGLang does not have",
    "unknown": "could not be checked",
}


def _fix_of_hook(row: CheckedHook) -> str | None:
    if row.moved_to:
        return f"use {' or '.join(row.moved_to[:2])}"
    if row.nearest:
        return f"did you mean {' or '.join(row.nearest[:3])}?"
    fixes = {
        "bypassed": "hook what its callers reach",
        "changed": "take the target's arguments and give its result, or take *args and **kwargs and hand them on",
    }
    return fixes.get(row.verdict)


_ARGUMENTS = "ServerArgs.__post_init__"


def _after_arguments(hook: WantedHook, plugin: PluginSource, host: Release) -> Iterator[Remark]:
    """A warning for a hook on the function that derived SGLang's arguments in older releases, if it is empty now."""
    answer = host.find(hook.target.replace(":", "."))
    node = answer.node if isinstance(answer, Definition) else None
    if not isinstance(node, ast.FunctionDef) or not does_nothing(node):
        return
    named = re.findall(r"`(\w+)`", ast.get_docstring(node) or "")
    later = " or ".join(hook.target.replace("__post_init__", one) for one in named)
    ours = "on sglang_platform.core's SRTPlatform, finalize_server_args(server_args) is called once all is derived"
    yield _of_hook(
        hook,
        plugin,
        "bypassed",
        "warning",
        f"the hook on {hook.target} takes no effect",
        f"in {host.label} that method does nothing: the arguments are derived later, and overwrite what the hook sets",
        f"hook {later} with HookType.BEFORE, since what it derives is read-only; {ours}" if named else ours,
    )


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
