"""Hooks that plugins' sources register on targets which the installed modules do not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import PLUGIN_GROUPS
from sglang_platform.core.discovery.module_search import find
from sglang_platform.core.errors import HookTargetError, PluginOrigin
from sglang_platform.core.hooks import existence
from sglang_platform.core.hooks.targets import MissingModule, parse, resolve
from sglang_platform.core.inspect.doctor.finding import Finding
from sglang_platform.core.inspect.doctor.module_source import (
    ModuleSource,
    SourceReader,
    dotted_name,
    package_files,
)

__all__ = ["RegisteredHook", "examine_hook_targets", "registered_hooks"]


class RegisteredHook(NamedTuple):
    """One registration in a plugin's source. `target` is None where it is computed."""

    target: str | None
    required: bool
    place: str
    """`file:line`."""


def examine_hook_targets(reader: SourceReader) -> Iterator[Finding]:
    """A problem for each missing target of a required hook, a note for an optional one."""
    has_host = find("sglang")[0] is not None
    try:
        for origin, hooks in _by_plugin(reader):
            computed = [hook.place for hook in hooks if hook.target is None]
            if computed:
                yield _unread(
                    origin, computed, "their targets are computed, and the source does not tell them"
                )
            absent = []
            for hook in hooks:
                if hook.target is None:
                    continue
                if not has_host and hook.target.startswith("sglang."):
                    absent.append(hook.place)
                else:
                    yield from _missing(origin, hook, hook.target)
            if absent:
                yield _unread(origin, absent, "SGLang is not installed in this environment")
    finally:
        existence.forget()


def registered_hooks(source: ModuleSource) -> Iterator[RegisteredHook]:
    """The calls of `plugin_hook` and `HookRegistry.register` in a module, core's or SGLang's."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted_name(node.func) or ""
        first, _, rest = name.partition(".")
        known_as = source.imports.get(first, ("", None))[1] or first
        called = ".".join(filter(None, (known_as, rest)))
        if called.rpartition(".")[2] != "plugin_hook" and not f".{called}".endswith(".HookRegistry.register"):
            continue
        words = {word.arg: word.value for word in node.keywords if word.arg}
        required = words.get("required")
        yield RegisteredHook(
            source.text(node.args[0] if node.args else words.get("target")),
            not (isinstance(required, ast.Constant) and required.value is False),
            f"{source.path}:{node.lineno}",
        )


def _by_plugin(reader: SourceReader) -> Iterator[tuple[PluginOrigin, list[RegisteredHook]]]:
    """The registrations of each plugin's package; one that two plugins share counts for the first."""
    seen: set[Path] = set()
    groups = sorted(
        PLUGIN_GROUPS, key=lambda group: group.endswith(".platforms")
    )  # hooks are registered by plugins
    for record in (record for group in groups for record in scan.records(group)):
        hooks: list[RegisteredHook] = []
        module = record.value.partition("[")[0].partition(":")[0].strip()
        for name, path in package_files(module) if module and record.name != OWN_PLUGIN else ():
            if path in seen:
                continue
            seen.add(path)
            text = path.read_bytes()
            if b"plugin_hook" in text or b"HookRegistry" in text:
                source = reader.file(name, path)
                hooks += registered_hooks(source) if source is not None else ()
        if hooks:
            yield record.origin, hooks


def _missing(origin: PluginOrigin, hook: RegisteredHook, target: str) -> Iterator[Finding]:
    try:
        address = resolve(parse(target))
    except HookTargetError as error:
        yield Finding(
            "hook-target-missing", "problem", error.what, origin, f"registered at {hook.place}", error.fix
        )
        return
    if isinstance(address, MissingModule):
        why, nearest = address.why, address.nearest
    else:
        verdict = existence.check(address)
        if verdict.answer != "missing":
            return
        why, nearest = verdict.why, verdict.nearest
    yield Finding(
        "hook-target-missing",
        "problem" if hook.required else "note",
        f"the hook target {target} does not exist",
        origin,
        f"{why} (registered at {hook.place})",
        f"did you mean {' or '.join(nearest)}?" if nearest else _FIX[hook.required],
    )


_FIX = {
    True: "correct the target for the installed version, or register the hook with required=False",
    False: "nothing, if the hook is for another version of its target",
}


def _unread(origin: PluginOrigin, places: list[str], why: str) -> Finding:
    return Finding(
        "hook-targets-unread",
        "note",
        f"{len(places)} hook registration{'s' * (len(places) > 1)} of {origin.name} could not be checked",
        origin,
        f"{why}: {', '.join(places[:5])}{', ...' * (len(places) > 5)}",
        "see `sglang-platform hooks report` in an environment that serves",
    )
