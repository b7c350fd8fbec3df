"""The rules that choose one platform or refuse to start the process.

With `SGLANG_PLATFORM=name` only that plugin is imported; it is an error if it fails or declines. Otherwise every plugin
is asked: one active plugin becomes the platform, no active plugin is allowed, several are an error. A failed plugin is
an error unless `SGLANG_PLATFORM_ON_ERROR=warn`. Platforms deliberately have no priority.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import Answer, ask, load_class, load_entry_point
from sglang_platform.core.discovery.kind import SRT, PlatformKind
from sglang_platform.core.discovery.log import log
from sglang_platform.core.discovery.refusals import (
    not_found,
    one_error,
    refuse_duplicates,
    refuse_in_tree,
    refuse_own_names,
    refuse_undecorated,
    refuse_unreadable,
)
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.settings import ON_ERROR_VARIABLE, Settings, read_settings
from sglang_platform.core.discovery.trace import Candidate, Trace
from sglang_platform.core.errors import (
    PlatformError,
    PluginEnded,
    PluginFailed,
    PluginOrigin,
    SeveralPlatforms,
)

__all__ = ["Decision", "PlatformChoice", "choose", "load_choice", "resolve"]


Asks = Callable[[EntryPointRecord], Answer]


class PlatformChoice(NamedTuple):
    """The chosen plugin, before its class is imported."""

    origin: PluginOrigin | None
    """None if no plugin is active and the base platform is used."""

    location: str | None
    """The location of the platform class."""

    may_fall_back: bool
    """Whether the process may fall back to no plugin if this one fails later."""

    trace: Trace


class Decision(NamedTuple):
    """The platform class of this process, with the trace that explains it."""

    origin: PluginOrigin | None
    """None if no plugin is active."""

    platform_class: type | None
    """The plugin's class, not re-based; None if no plugin is active."""

    trace: Trace


def resolve(kind: PlatformKind = SRT, trace: Trace | None = None) -> Decision:
    """`choose`, then import the class. Keeps no state; `current.decide` returns the process-wide decision."""
    return load_choice(choose(kind, trace), kind)


def choose(kind: PlatformKind = SRT, trace: Trace | None = None, asks: Asks = ask) -> PlatformChoice:
    """Ask the plugins of `kind` by the rules, each with `asks`. Their platform classes are not imported.

    `trace` is filled in; pass one to read it if this raises. Raises ConfigurationError, PluginNotFound,
    PluginFailed, ContractVersionError, DuplicatePlugins or SeveralPlatforms.
    """
    import os

    trace = Trace(kind.group) if trace is None else trace
    started = time.perf_counter()
    try:
        variables = (kind.variable, kind.development_variable, ON_ERROR_VARIABLE)
        trace.settings.update({name: os.environ[name] for name in variables if os.environ.get(name)})
        settings = read_settings(kind)
        found = scan.records(kind.group)
        trace.scan_seconds = time.perf_counter() - started
        trace.candidates = [Candidate(record.origin, record.value) for record in found]
        trace.notes += [f"unreadable: {path}: {reason}" for path, reason in scan.scan().unreadable]
        refuse_own_names(found, kind)
        names = [record.name for record in found]
        if settings.development is None and settings.stop_on_error and settings.platform not in names:
            refuse_unreadable(scan.scan().unreadable, kind)
        if settings.platform is not None and settings.platform.lower() in kind.own_names:
            choice = _leave_to_host(settings.platform, kind, trace)
        elif settings.development is not None:
            choice = _take_development(settings, kind, trace)
        elif settings.platform is not None:
            choice = _ask_named(settings.platform, found, kind, trace, asks)
        else:
            choice = _ask_all(found, settings, kind, trace, asks)
    except PlatformError as error:
        trace.refused(error)
        raise
    finally:
        trace.seconds = time.perf_counter() - started
    return choice


def load_choice(choice: PlatformChoice, kind: PlatformKind = SRT) -> Decision:
    """Import the class of a choice. Raises PluginFailed, unless the choice may fall back."""
    trace = choice.trace
    if choice.origin is None or choice.location is None:
        return Decision(None, None, trace)
    started = time.perf_counter()
    try:
        platform_class = load_class(choice.location, choice.origin, lambda: _bases(kind))
        refuse_in_tree(platform_class, choice.origin, kind)
        for record in scan.records(kind.group):
            if record.origin == choice.origin:
                refuse_undecorated(
                    load_entry_point(record), platform_class, choice.location, choice.origin, kind
                )
    except PlatformError as error:
        return give_up(choice, error)
    finally:
        trace.seconds += time.perf_counter() - started
    return Decision(choice.origin, platform_class, trace)


def give_up(choice: PlatformChoice, error: PlatformError) -> Decision:
    """Handle a failure of the chosen plugin: raise, or fall back to no plugin if that is allowed."""
    trace = choice.trace
    assert choice.origin is not None
    candidate = trace.candidate(choice.origin)
    candidate.outcome, candidate.reason = "failed", str(error)
    if not choice.may_fall_back:
        trace.refused(error)
        raise error
    _warn(error, trace)
    trace.outcome = "no platform plugin is active"
    return Decision(None, None, trace)


def _leave_to_host(name: str, kind: PlatformKind, trace: Trace) -> PlatformChoice:
    for candidate in trace.candidates:
        candidate.reason = f"{kind.variable}={name}"
    trace.outcome = f"{kind.variable} names the host's own platform {name.lower()!r}"
    return PlatformChoice(None, None, False, trace)


def _bases(kind: PlatformKind) -> tuple[type, ...]:
    host = kind.host.adapter()
    core_base = kind.core_base()
    return (core_base,) if host is None else (core_base, host.platform_base())


def _take_development(settings: Settings, kind: PlatformKind, trace: Trace) -> PlatformChoice:
    assert settings.development is not None
    name, location = settings.development
    origin = PluginOrigin(name)
    for candidate in trace.candidates:
        shadowed = " brings one of that name" if candidate.origin.name == name else f"={name}={location}"
        candidate.reason = f"{kind.development_variable}{shadowed}"
    trace.candidates.append(
        Candidate(origin, location, "chosen", f"named by {kind.development_variable}", answer=location)
    )
    return _chosen(origin, location, False, trace)


def _ask_named(
    name: str, found: Sequence[EntryPointRecord], kind: PlatformKind, trace: Trace, asks: Asks
) -> PlatformChoice:
    for candidate in trace.candidates:
        candidate.reason = f"{kind.variable}={name}"
    named = [record for record in found if record.name == name]
    if not named:
        raise not_found(name, found, kind)
    refuse_duplicates(named)
    record = named[0]
    candidate = trace.candidate(record.origin)
    error = _ask_into(candidate, record, asks)
    if error is not None:
        raise error
    if candidate.answer is None:
        raise PluginFailed(
            f"{kind.variable}={name!r}: the plugin is installed, but its device is not available",
            plugin=record.origin,
            why=candidate.reason,
            fix=f"make the device available, or unset {kind.variable}",
        )
    return _chosen(record.origin, candidate.answer, False, trace)


def _ask_all(
    found: Sequence[EntryPointRecord], settings: Settings, kind: PlatformKind, trace: Trace, asks: Asks
) -> PlatformChoice:
    refuse_duplicates(found)
    active: list[EntryPointRecord] = []
    failures: list[PlatformError] = []
    for record in {record.name: record for record in found}.values():
        candidate = trace.candidate(record.origin)
        error = _ask_into(candidate, record, asks)
        if error is not None:
            failures.append(error)
        elif candidate.answer is not None:
            candidate.outcome = "active"
            active.append(record)
    if failures and (settings.stop_on_error or any(isinstance(one, PluginEnded) for one in failures)):
        raise one_error(failures)
    for error in failures:
        _warn(error, trace)
    if len(active) > 1:
        names = [record.name for record in active]
        raise SeveralPlatforms(
            f"{len(active)} platforms are active: {', '.join(str(record.origin) for record in active)}",
            why=f"{kind.variable} names none of them, and there is no priority between platforms",
            fix=f"set {' or '.join(f'{kind.variable}={name}' for name in names)}",
        )
    if active:
        answer = trace.candidate(active[0].origin).answer
        assert answer is not None
        return _chosen(active[0].origin, answer, not settings.stop_on_error, trace)
    trace.outcome = "no platform plugin is active" if found else "no platform plugin is installed"
    reasons = "; ".join(f"{candidate.origin}: {candidate.reason}" for candidate in trace.candidates)
    log(__name__).info("%s%s", trace.outcome, f" ({reasons})" if reasons else "")
    return PlatformChoice(None, None, True, trace)


def _ask_into(candidate: Candidate, record: EntryPointRecord, asks: Asks) -> PlatformError | None:
    """Ask one plugin and record its answer in the trace. Returns the error, so that the caller decides."""
    started = time.perf_counter()
    try:
        candidate.answer, candidate.reason, candidate.fix = asks(record)
        candidate.outcome = "declined" if candidate.answer is None else "active"
    except PlatformError as error:
        candidate.outcome, candidate.reason = "failed", str(error)
        return error
    finally:
        candidate.seconds = time.perf_counter() - started
    return None


def _chosen(origin: PluginOrigin, location: str, may_fall_back: bool, trace: Trace) -> PlatformChoice:
    trace.candidate(origin).outcome = "chosen"
    trace.outcome = f"{origin} is the platform: {location}"
    log(__name__).info("platform: %s at %s", origin, location)
    return PlatformChoice(origin, location, may_fall_back, trace)


def _warn(error: PlatformError, trace: Trace) -> None:
    trace.notes.append(f"{ON_ERROR_VARIABLE}=warn: went on without {error.plugin}")
    log(__name__).warning("%s=warn, going on without it: %s", ON_ERROR_VARIABLE, error)
