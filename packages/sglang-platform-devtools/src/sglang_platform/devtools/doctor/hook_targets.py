"""Hooks and patches in plugins' sources whose target is missing in the installed modules, or does not fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from sglang_platform.core.doctor.finding import Finding, Severity
from sglang_platform.core.errors import ConfigurationError, HookTargetError, PluginOrigin
from sglang_platform.core.hooks.targets import MissingModule, parse, resolve
from sglang_platform.devtools.changes import Changes, changes_of_installed
from sglang_platform.devtools.hook_check.check import CheckedHook, check, misspelt
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.answers import Absent, Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.opening import open_host
from sglang_platform.devtools.upgrade.release import HOST, Release
from sglang_platform.devtools.written import does_nothing

__all__ = ["examine_hook_targets", "missing_target"]


def examine_hook_targets(lookup: Lookup) -> Iterator[Finding]:
    """A problem for each required hook that fails or takes no effect, a warning for an optional one that is probably
    misspelt; notes for everything that was not examined.

    Core's own hooks are left out: its tests run them on each release.
    """
    has_host = lookup.modules.has("sglang")
    host = Release(open_host("installed", {HOST})) if has_host else None
    for origin, found in changes_of_installed(with_adapter=False, host=host):
        if found.unread:
            why = "what they change is computed, and the source does not tell it"
            yield _unread(origin, found.unread, why)
        on_host = [hook for hook in found.hooks if hook.target.startswith("sglang.")]
        missing: set[WantedHook] = set()
        hooked = {hook.target.replace(":", ".") for hook in found.hooks}
        for hook in found.hooks:
            if hook in on_host and (not has_host or hook.written):
                continue
            for finding in missing_target(lookup, origin, hook, hooked):
                missing.add(hook)
                yield finding
        if on_host and not has_host:
            yield _unread(
                origin, [one.where or "" for one in on_host], "SGLang is not installed in this environment"
            )
        elif has_host:
            yield from _on_host(origin, [one for one in on_host if one not in missing])
            yield from _told(lookup, origin, found)


def _on_host(origin: PluginOrigin, hooks: Sequence[WantedHook]) -> Iterator[Finding]:
    if not hooks:
        return
    try:
        rows = check(hooks, open_host("installed", {"sglang"}))
    except (ConfigurationError, HookTargetError):
        return  # reported as a missing target
    for row in rows:
        if row.verdict == "exists" or row.is_new:
            continue
        if row.verdict == "unknown":
            what = f"{_what(row)} could not be checked"
            yield Finding("hook-unclear", "note", what, origin, row.why, None, row.wanted.where)
            continue
        severity: Severity = (
            "problem"
            if row.is_problem and row.verdict != "bypassed"
            else "warning"
            if row.is_problem or row.meant
            else "note"
        )
        yield Finding(
            "hook-does-not-fit" if row.verdict != "missing" else "hook-target-missing",
            severity,
            f"{_what(row)} {_VERDICTS[row.verdict]}",
            origin,
            row.why,
            _fix(row),
            row.wanted.where,
        )


_VERDICTS = {
    "changed": "does not fit",
    "bypassed": "takes no effect",
    "moved": "is not where SGLang has it now",
    "missing": "is on a name that SGLang does not have",
}


def _what(row: CheckedHook) -> str:
    kind = "the function written to" if row.wanted.written else "the hook on"
    return f"{kind} {row.wanted.target}"


def _fix(row: CheckedHook) -> str:
    if row.moved_to:
        return f"use {row.moved_to[0]}"
    if row.nearest:
        return f"did you mean {' or '.join(row.nearest[:3])}?"
    if row.verdict == "bypassed":
        return "hook what its callers reach"
    return "take the target's arguments and give its result, or take *args and **kwargs and hand them on"


def _told(lookup: Lookup, origin: PluginOrigin, found: Changes) -> Iterator[Finding]:
    """Notes on hooks and patches that work but have limits worth knowing."""
    written = [one for one in found.hooks if one.written]
    if written:
        yield Finding(
            "host-patched",
            "note",
            f"{origin.name} writes {len(written)} name{'s' * (len(written) > 1)} into SGLang's modules and classes",
            origin,
            f"{_some([f'{one.target} at {one.where}' for one in written])}; modules that have imported one of them by "
            "name keep the old one",
            "sglang_platform.core's HookRegistry reaches those as well, and says what it did not reach",
        )
    if found.stand_ins:
        yield Finding(
            "host-patched",
            "note",
            f"{origin.name} puts {len(found.stand_ins)} module{'s' * (len(found.stand_ins) > 1)} into sys.modules",
            origin,
            _some([f"{one.module} at {one.where}" for one in found.stand_ins]),
            "what the stand-ins lack is seen only where it is used",
        )
    for hook in found.hooks:
        if hook.target.replace(":", ".").endswith("ServerArgs.__post_init__"):
            yield _after_arguments(lookup, origin, hook)


def _after_arguments(lookup: Lookup, origin: PluginOrigin, hook: WantedHook) -> Finding:
    """A warning for a hook on the function that derived SGLang's arguments in older releases, if it is empty now."""
    what = f"{origin.name} changes ServerArgs.__post_init__ by a hook"
    ours = "on sglang_platform.core's SRTPlatform, finalize_server_args(server_args) is called once all is derived"
    address = resolve(parse(hook.target))
    answer = lookup.find(address) if not isinstance(address, MissingModule) else None
    node = answer.node if isinstance(answer, Definition) else None
    if not isinstance(node, ast.FunctionDef) or not does_nothing(node):
        why = "SGLang asks a platform for apply_server_args_defaults only, before it derives the rest"
        return Finding("host-patched", "note", what, origin, why, ours, hook.where)
    named = re.findall(r"`(\w+)`", ast.get_docstring(node) or "")
    why = "in this SGLang that method does nothing: the arguments are derived later, and overwrite what the hook sets"
    later = " or ".join(hook.target.replace("__post_init__", one) for one in named)
    fix = f"hook {later} with HookType.BEFORE, since what it derives is read-only; " if named else ""
    return Finding("host-patched", "warning", what, origin, why, f"{fix}{ours}", hook.where)


def missing_target(
    lookup: Lookup, origin: PluginOrigin, hook: WantedHook, hooked: Collection[str] = ()
) -> Iterator[Finding]:
    """`hooked`: targets with dots, of which none is what an optional hook on a similar name was meant for."""
    try:
        address = resolve(parse(hook.target))
    except HookTargetError as error:
        yield Finding("hook-target-missing", "problem", error.what, origin, error.why, error.fix, hook.where)
        return
    if isinstance(address, MissingModule):
        why, nearest = address.why, address.nearest
    else:
        answer = lookup.find(address)
        if not isinstance(answer, Absent):
            return
        why, nearest = answer.why, answer.nearest
    meant = misspelt(hook.target, [one for one in nearest if one.replace(":", ".") not in hooked])
    yield Finding(
        "hook-target-missing",
        "problem" if hook.required else "warning" if meant else "note",
        f"the hook target {hook.target} does not exist",
        origin,
        why,
        f"did you mean {' or '.join(nearest[:3])}?" if nearest else _FIX[hook.required],
        hook.where,
    )


_FIX = {
    True: "correct the target for the installed version, or register the hook with required=False",
    False: "nothing, if the hook is for another version of its target",
}


def _unread(origin: PluginOrigin, places: Sequence[str], why: str) -> Finding:
    return Finding(
        "hook-targets-unread",
        "note",
        f"{len(places)} hook registration{'s' * (len(places) > 1)} of {origin.name} could not be checked",
        origin,
        f"{why}: {_some(places)}",
        "see `sglang-platform hooks report` in an environment that serves",
    )


def _some(places: Sequence[str]) -> str:
    return f"{', '.join(places[:5])}{', ...' * (len(places) > 5)}"
