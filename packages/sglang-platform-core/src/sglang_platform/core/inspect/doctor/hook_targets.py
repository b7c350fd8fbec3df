"""Hooks that plugins' sources register on targets which the installed modules do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import installed_plugins
from sglang_platform.core.errors import ConfigurationError, HookTargetError, PluginOrigin
from sglang_platform.core.hooks.targets import MissingModule, parse, resolve
from sglang_platform.core.inspect.doctor.finding import Finding
from sglang_platform.core.inspect.registrations import PluginHooks, WantedHook, read_hooks
from sglang_platform.core.source.answers import Absent
from sglang_platform.core.source.entry_points import reference
from sglang_platform.core.source.lookup import Lookup
from sglang_platform.core.source.opening import open_module, package_of

__all__ = ["examine_hook_targets", "missing_target"]


def examine_hook_targets(lookup: Lookup) -> Iterator[Finding]:
    """A problem for each missing target of a required hook, a note for an optional one."""
    has_host = lookup.modules.has("sglang")
    for origin, found in _by_plugin():
        if found.unread:
            why = "their targets are computed, and the source does not tell them"
            yield _unread(origin, found.unread, why)
        absent = []
        for hook in found.hooks:
            if not has_host and hook.target.startswith("sglang."):
                absent.append(hook.where or "")
            else:
                yield from missing_target(lookup, origin, hook)
        if absent:
            yield _unread(origin, absent, "SGLang is not installed in this environment")


def _by_plugin() -> Iterator[tuple[PluginOrigin, PluginHooks]]:
    """The registrations of each plugin's package; one that two plugins share counts for the first."""
    seen: set[str] = set()
    # General plugins first: it is they who register hooks.
    for record in sorted(installed_plugins(), key=lambda record: record.group.endswith(".platforms")):
        package = package_of(reference(record.value)[0])
        if package in seen or record.name == OWN_PLUGIN:
            continue
        seen.add(package)
        try:
            found = read_hooks(open_module(package), record.name)
        except ConfigurationError:
            continue  # told as an entry point that leads nowhere
        if found.hooks or found.unread:
            yield record.origin, found


def missing_target(lookup: Lookup, origin: PluginOrigin, hook: WantedHook) -> Iterator[Finding]:
    try:
        address = resolve(parse(hook.target))
    except HookTargetError as error:
        yield Finding(
            "hook-target-missing", "problem", error.what, origin, f"registered at {hook.where}", error.fix
        )
        return
    if isinstance(address, MissingModule):
        why, nearest = address.why, address.nearest
    else:
        answer = lookup.find(address)
        if not isinstance(answer, Absent):
            return
        why, nearest = answer.why, answer.nearest
    yield Finding(
        "hook-target-missing",
        "problem" if hook.required else "note",
        f"the hook target {hook.target} does not exist",
        origin,
        f"{why} (registered at {hook.where})",
        f"did you mean {' or '.join(nearest)}?" if nearest else _FIX[hook.required],
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
        f"{why}: {', '.join(places[:5])}{', ...' * (len(places) > 5)}",
        "see `sglang-platform hooks report` in an environment that serves",
    )
