"""Checks a plugin against one release: missing names, rejected calls, failing hooks."""

from __future__ import annotations

from collections.abc import Iterator

from sglang_platform.core.errors import HookTargetError
from sglang_platform.core.hooks.targets import parse
from sglang_platform.devtools.check.remark import Level, Remark
from sglang_platform.devtools.hook_check.check import check as check_hooks
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.answers import Absent, Definition
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.members import Function
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.reader import Couplings
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.shapes import bound_parameters, parameters_of, shown

__all__ = ["examine_couplings", "examine_hooks"]


def examine_couplings(couplings: Couplings, host: Release) -> Iterator[Remark]:
    """The remarks on uses of the host, except hooks."""
    for one in couplings.found:
        if one.kind == "import":
            yield from _import(one, host)
        elif one.kind in ("call", "construct"):
            yield from _call(one, host)


def _import(one: Coupling, host: Release) -> Iterator[Remark]:
    answer = host.find(one.target)
    if not isinstance(answer, Absent):
        return
    goes_on = " (the plugin goes on without it)" if one.guarded else ""
    near = (
        f"did you mean {' or '.join(answer.nearest[:2])}?"
        if answer.nearest
        else "see `sglang-platform upgrade`"
    )
    level: Level = "note" if one.guarded else "problem"
    what = f"{host.label} has no {one.target}{goes_on}"
    yield Remark("couplings", "name-missing", level, what, one.place.file, one.place.line, answer.why, near)


def _call(one: Coupling, host: Release) -> Iterator[Remark]:
    call, name = one.call, one.target.rpartition(".")[2].rpartition(":")[2]
    if call is None:
        return
    found = one.pair.new if one.pair is not None else None
    if one.kind == "construct":
        signature = found.constructor() if found is not None else None
    elif found is not None:
        member = found.find(one.member)
        signature = bound_parameters(member) if member is not None and member.kind == "method" else None
    else:
        answer = host.find(one.target)
        node = answer.node if isinstance(answer, Definition) else None
        plain = isinstance(node, Function) and not node.decorator_list
        signature = parameters_of(node, is_method=False) if plain else None  # type: ignore[arg-type]
    why = call.refused_by(signature) if signature is not None else None
    if why is not None:
        yield Remark(
            "couplings",
            "call-not-taken",
            "problem",
            f"{host.label} does not take {call.text}",
            one.place.file,
            one.place.line,
            why,
            f"it takes {shown(name, signature)}",
        )


def examine_hooks(couplings: Couplings, plugin: PluginSource, host: Release) -> Iterator[Remark]:
    """Every hook and patch by the rules of `hooks check`."""
    wanted = [one.hook for one in couplings.found if one.hook is not None]
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
