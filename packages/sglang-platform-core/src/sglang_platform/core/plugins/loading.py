"""`load_plugins()`: run the general plugins of this process, then apply their hooks.

General plugins are functions called for their side effects, found in the entry-point group `sglang.srt.plugins`, and
for the diffusion runtime in `sglang.multimodal_gen.plugins`. Every process needs its own call; in a host, core's own
general plugin makes it.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import load_entry_point
from sglang_platform.core.discovery.contract_version import check_contract_version
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.host_first import HostWanted, with_host_first
from sglang_platform.core.discovery.kind import KINDS, SRT, PlatformKind, installed_plugins
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.log import log
from sglang_platform.core.discovery.refusals import amended, plugin_failed, refuse_duplicates
from sglang_platform.core.discovery.resolve import PlatformChoice
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.settings import (
    ON_ERROR_VARIABLE,
    PLUGINS_VARIABLE,
    plugin_filter,
    stop_on_error,
)
from sglang_platform.core.errors import (
    LaunchRefused,
    PlatformError,
    PluginFailed,
    PluginNotFound,
    PluginOrigin,
)
from sglang_platform.core.hooks.registry import HookRegistry, plugin_source
from sglang_platform.core.plugins.one_load import OneLoad, forget_loads
from sglang_platform.core.registries.registry import withdraw
from sglang_platform.core.spelling import nearest

__all__ = [
    "LoadedPlugin",
    "has_begun",
    "load_plugins",
    "loaded_plugins",
    "reset",
]

State = Literal["run", "left out", "failed"]

_FAILED_VARIABLE = "SGLANG_PLATFORM_FAILED_PLUGINS"
"""The plugins that a process went on without, as `pid:name,name`, so that the processes it starts do the same."""


@dataclass(frozen=True)
class LoadedPlugin:
    """The outcome of one general plugin in this process."""

    origin: PluginOrigin
    value: str
    state: State
    reason: str | None = None
    seconds: float | None = None


class _Loaded(OneLoad):
    """The state of `load_plugins()` in this process for one runtime."""

    def __init__(self) -> None:
        super().__init__()
        self.plugins: list[LoadedPlugin] = []


_loaded = {kind.general_group: _Loaded() for kind in KINDS}


def load_plugins(*, kind: PlatformKind = SRT, before: Callable[[PluginOrigin], None] | None = None) -> None:
    """Run every general plugin of a runtime that may run, once per process, and apply all registered hooks.

    A plugin may run unless SGLANG_PLUGINS is set and does not name it, or its distribution carries platforms of
    which none is the active one.

    Further calls do nothing, also from inside a plugin; if the first call failed, they raise its error again: see
    `OneLoad`. The hooks and registered parts of a failed plugin are withdrawn; its error names the plugins that ran
    before it.

    before: called with each plugin before it runs.

    Raises PluginNotFound for an unknown name in SGLANG_PLUGINS, DuplicatePlugins, PluginFailed and
    ContractVersionError (with SGLANG_PLATFORM_ON_ERROR=warn the last two are logged, and the plugin is left out),
    what `current.choice` raises where a plugin depends on the platform, and HookError where a required hook cannot be
    applied.
    """
    _loaded[kind.general_group].run(functools.partial(_load, kind, before))


def loaded_plugins(kind: PlatformKind | None = None) -> tuple[LoadedPlugin, ...]:
    """The outcome of each general plugin in this process, in the order they were run; of both runtimes unless
    `kind` is given."""
    groups = _loaded if kind is None else [kind.general_group]
    return tuple(plugin for group in groups for plugin in _loaded[group].plugins)


def has_begun(kind: PlatformKind) -> bool:
    """Whether `load_plugins()` was called in this process for a runtime; it may still run."""
    return _loaded[kind.general_group].begun


def reset() -> None:
    """Forget that plugins were loaded. Their hooks stay: see `HookRegistry.reset`. For tests."""
    forget_loads()
    for loaded in _loaded.values():
        loaded.plugins.clear()
    os.environ.pop(_FAILED_VARIABLE, None)


def _load(kind: PlatformKind, before: Callable[[PluginOrigin], None] | None) -> None:
    stop = stop_on_error()
    found = [record for record in scan.records(kind.general_group) if record.name != OWN_PLUGIN]
    chosen = _without_inactive(_without_filtered(found), kind)
    refuse_duplicates(chosen)
    failed = set() if stop else _failed_in_parent()
    for record in chosen:
        if record.name in failed:
            _report(record, "left out", "it failed in the process that started this one")
            continue
        if before is not None:
            before(record.origin)
        started = time.perf_counter()
        try:
            with_host_first(
                kind, functools.partial(_run, record), functools.partial(getattr, record, "origin")
            )
        except PlatformError as raised:
            error = _after_others(raised, kind)
            _report(record, "failed", str(error), time.perf_counter() - started)
            if stop:
                without = f"go on without it: {ON_ERROR_VARIABLE}=warn"
                raise amended(error, alternative=without) from error.__cause__
            log(__name__).warning("%s=warn, going on without it: %s", ON_ERROR_VARIABLE, error)
            failed.add(record.name)
            os.environ[_FAILED_VARIABLE] = f"{os.getpid()}:{','.join(sorted(failed))}"
        else:
            _report(record, "run", seconds=time.perf_counter() - started)
    HookRegistry.apply_hooks()


def _after_others(error: PlatformError, kind: PlatformKind) -> PlatformError:
    """A copy of a plugin's failure whose reason names the platform and the plugins that were loaded before it."""
    decision = lazy_platform(kind)[1].decision
    earlier = [plugin.origin for plugin in loaded_plugins(kind) if plugin.state == "run"]
    if decision is not None and decision.origin is not None:
        earlier.insert(0, decision.origin)
    if type(error) is not PluginFailed or not earlier:
        return error
    return amended(error, also=f"loaded before it in this process: {', '.join(map(str, earlier))}")


def _failed_in_parent() -> set[str]:
    pid, _, names = os.environ.get(_FAILED_VARIABLE, "").partition(":")
    return set() if pid == str(os.getpid()) else set(filter(None, names.split(",")))


def _run(record: EntryPointRecord) -> None:
    """Call one plugin with its origin recorded; on failure withdraw its hooks and registered parts."""
    check_contract_version(record)
    try:
        with plugin_source(record.origin):
            function = load_entry_point(record)
            try:
                function()
            except (KeyboardInterrupt, LaunchRefused, HostWanted):
                raise
            except BaseException as error:
                what = f"general plugin {record.name!r} failed"
                raise plugin_failed(what, record.origin, error, fix=f"correct {record.value}") from error
    except BaseException:
        HookRegistry.withdraw(record.origin)
        withdraw(record.origin)
        raise


def _without_filtered(found: Iterable[EntryPointRecord]) -> list[EntryPointRecord]:
    """The plugins that SGLANG_PLUGINS lets through. Platforms may be named in it, since the host filters them too, and
    plugins of the other runtime, since both read the variable."""
    found = list(found)
    names = plugin_filter()
    if names is None:
        return found
    general = {record.name for record in found}
    known = {OWN_PLUGIN} | {record.name for record in installed_plugins()}
    for name in names:
        if name not in known:
            meant = nearest(name, known)
            raise PluginNotFound(
                f"{PLUGINS_VARIABLE} names {name!r}, which is no installed plugin"
                + (f"; did you mean {meant!r}?" if meant else ""),
                why=f"installed general plugins: {', '.join(sorted(general)) or 'none'}",
                fix=f"correct {PLUGINS_VARIABLE}, or pip install the package that brings {name!r}",
            )
    chosen = []
    for record in found:
        if record.name in names:
            chosen.append(record)
        else:
            _report(record, "left out", f"{PLUGINS_VARIABLE}={','.join(names)}")
    return chosen


def _without_inactive(found: Iterable[EntryPointRecord], kind: PlatformKind) -> list[EntryPointRecord]:
    """The plugins whose distribution carries no platform or the active one. Resolves the platform only if needed."""
    platforms: dict[str, list[str]] = {}
    for record in scan.records(kind.group):
        platforms.setdefault(normalize(record.origin.distribution or ""), []).append(record.name)
    chosen = []
    for record in found:
        carried = platforms.get(normalize(record.origin.distribution or ""))
        if carried is None or _is_active(record, kind):
            chosen.append(record)
            continue
        active = _choice(kind).origin
        reason = (
            f"it belongs to the platform {' or '.join(map(repr, carried))}, and the active one is "
            f"{active.name if active else 'none of the plugins'}"
        )
        _report(record, "left out", reason)
    return chosen


def _choice(kind: PlatformKind) -> PlatformChoice:
    return lazy_platform(kind)[1].choose()


def _is_active(record: EntryPointRecord, kind: PlatformKind) -> bool:
    active = _choice(kind).origin
    return (
        active is not None
        and active.distribution is not None
        and normalize(active.distribution) == normalize(record.origin.distribution or "")
    )


def _report(
    record: EntryPointRecord, state: State, reason: str | None = None, seconds: float | None = None
) -> None:
    loaded = _loaded[record.group]
    loaded.plugins.append(LoadedPlugin(record.origin, record.value, state, reason, seconds))
