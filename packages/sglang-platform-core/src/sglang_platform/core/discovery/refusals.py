"""The errors of discovery: a plugin's exception with its origin and a fix, and violations of the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sglang_platform.core.correction import place_of_function
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.distribution import UnreadableMetadata
from sglang_platform.core.discovery.groups import KNOWN_GROUPS
from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.settings import ON_ERROR_VARIABLE
from sglang_platform.core.errors import (
    ConfigurationError,
    ContractError,
    DuplicatePlugins,
    LaunchRefused,
    PlatformError,
    PluginEnded,
    PluginFailed,
    PluginNotFound,
    PluginOrigin,
    ReentrantResolution,
    cause_chain,
    explain,
)
from sglang_platform.core.spelling import nearest

__all__ = [
    "amended",
    "not_found",
    "one_error",
    "plugin_failed",
    "refuse_duplicates",
    "refuse_in_tree",
    "refuse_own_names",
    "refuse_undecorated",
    "refuse_unreadable",
]


def plugin_failed(
    what: str, origin: PluginOrigin, error: BaseException, fix: str | None = None
) -> PlatformError:
    """The error to raise `from error`. ReentrantResolution and ContractError keep their type and message."""
    if isinstance(error, ReentrantResolution | ContractError):
        return type(error)(error.what, plugin=error.plugin or origin, why=error.why, fix=error.fix)
    told = error.fix if isinstance(error, PlatformError | LaunchRefused) else None
    if told is None and (install := _installation(error)) is not None:
        fix = f"{fix}; or {install}" if fix else install
    return PluginFailed(what, plugin=origin, why=explain(error), fix=told or fix)


def amended(
    error: PlatformError, *, alternative: str | None = None, also: str | None = None
) -> PlatformError:
    """A copy of `error` whose fix offers one more alternative, and whose reason says `also`."""
    fix = "; or ".join(filter(None, (error.fix, alternative))) or None
    why = "; ".join(filter(None, (error.why, also))) or None
    copy = type(error)(error.what, plugin=error.plugin, why=why, fix=fix)
    copy.__cause__ = error.__cause__
    return copy


def _installation(error: BaseException) -> str | None:
    """What to install if a file that a plugin imports is absent or no Python."""
    for link in cause_chain(error):
        if isinstance(link, ModuleNotFoundError) and link.name:
            return f"install what provides {link.name!r}"
        if isinstance(link, SyntaxError):
            return "pip install --force-reinstall the package of that file, if it is damaged"
    return None


def refuse_duplicates(found: Iterable[EntryPointRecord]) -> None:
    """Raises DuplicatePlugins if two records of one group have the same name."""
    by_name: dict[str, list[EntryPointRecord]] = {}
    for record in found:
        by_name.setdefault(record.name, []).append(record)
    for name, same in by_name.items():
        if len({(record.origin, record.value) for record in same}) > 1:
            carriers = [f"{record.origin} = {record.value}" for record in same]
            distributions = sorted({record.origin.distribution or "?" for record in same})
            raise DuplicatePlugins(
                f"{len(same)} plugins are named {name!r} in {same[0].group}",
                why="; ".join(carriers),
                fix=f"keep one: {' or '.join(f'pip uninstall {distribution}' for distribution in distributions)}"
                if len(distributions) > 1
                else f"correct the entry points of {distributions[0]}",
            )


def refuse_unreadable(unreadable: Iterable[UnreadableMetadata], kind: PlatformKind) -> None:
    """Raises ConfigurationError if entry points of a distribution are unreadable, since it may carry the platform."""
    files = [one for one in unreadable if one.path.endswith("entry_points.txt")]
    if files:
        raise ConfigurationError(
            f"{files[0].path} cannot be read",
            why="a platform may be among its entry points: "
            + "; ".join(one.reason if one is files[0] else f"{one.path}: {one.reason}" for one in files),
            fix="install the distribution again, or remove its folder; to go on without it: name the platform in "
            f"{kind.variable}, or set {ON_ERROR_VARIABLE}=warn",
        )


def refuse_own_names(found: Iterable[EntryPointRecord], kind: PlatformKind) -> None:
    """Raises PluginFailed if a plugin has the name of one of the host's own platforms."""
    for record in found:
        if record.name.lower() in kind.own_names:
            raise PluginFailed(
                f"a plugin in {record.group} is named {record.name!r}, as a platform of the host's own",
                plugin=record.origin,
                why=f"the {kind.runtime} runtime keeps these names for itself: {', '.join(sorted(kind.own_names))}",
                fix=f"give the entry point another name, or pip uninstall {record.origin.distribution}",
            )


def refuse_in_tree(cls: type, origin: PluginOrigin, kind: PlatformKind) -> None:
    """Raises PluginFailed if the host accepts only out-of-tree platforms and `cls` is not one."""
    identity = getattr(getattr(cls, "_enum", None), "name", None)
    if kind.out_of_tree_only and identity != "OOT":
        raise PluginFailed(
            f"the {kind.runtime} runtime takes only out-of-tree platforms from plugins, and {cls.__qualname__} is none",
            plugin=origin,
            why=f"{cls.__module__}.{cls.__qualname__} has _enum {identity}",
            fix=f"set _enum = PlatformEnum.OOT, or do not register it in {kind.group} and leave this device to the "
            "host's own platform",
        )


def refuse_undecorated(
    activate: Callable[[], Any], cls: type, location: str, origin: PluginOrigin, kind: PlatformKind
) -> None:
    """Raises PluginFailed if the host would get a class on core's contract instead of the re-based one."""
    if getattr(activate, "_answers", None) == kind.group or not _is_on_core_alone(cls, kind):
        return
    name = getattr(activate, "__name__", "activate")
    place = place_of_function(activate)
    raise PluginFailed(
        f"{name}() of plugin {origin.name!r} is not decorated with @{kind.decorator}",
        plugin=origin,
        why=f"SGLang would get {location!r} as it is, and refuse it: a class on core's {kind.core_base().__name__} is "
        "none on SGLang's",
        fix=f"write `from sglang_platform.core import {kind.decorator}`, and `@{kind.decorator}` above `def {name}()`"
        + (f" at {place}" if place else ""),
    )


def _is_on_core_alone(cls: type, kind: PlatformKind) -> bool:
    host = kind.host.adapter()
    return issubclass(cls, kind.core_base()) and not (
        host is not None and issubclass(cls, host.platform_base())
    )


def not_found(name: str, found: Sequence[EntryPointRecord], kind: PlatformKind) -> PluginNotFound:
    """The error for a named platform that is not installed; lists the installed ones."""
    elsewhere = [one for one in scan.scan().records if one.name == name and one.group not in KNOWN_GROUPS]
    if elsewhere and name not in [one.name for one in found]:
        group = elsewhere[0].group
        return PluginNotFound(
            f"{kind.variable}={name!r} names no installed platform plugin",
            plugin=elsewhere[0].origin,
            why=f"{elsewhere[0].origin.distribution} has it in the group {group!r}, which nobody reads",
            fix=f'move it to [project.entry-points."{kind.group}"], and pip install the package again',
        )
    if not found:
        return PluginNotFound(
            f"{kind.variable}={name!r}, but no platform plugin is installed",
            why=f"no installed distribution has an entry point in {kind.group}",
            fix="pip install the package that brings it (into this environment), or unset " + kind.variable,
        )
    known = Counter(record.name for record in found)
    meant = nearest(name, known)
    return PluginNotFound(
        f"{kind.variable}={name!r} names no installed platform plugin"
        + (f"; did you mean {meant!r}?" if meant else ""),
        why=f"installed: {', '.join(str(record.origin) for record in found)}",
        fix=(f"set {kind.variable}={meant}" if meant else "set one of those names")
        + ", or pip install the package that brings it",
    )


def one_error(failures: list[PlatformError]) -> PlatformError:
    """The error for the failed plugins; its fix includes how to continue without them."""
    without = f"go on without it: {ON_ERROR_VARIABLE}=warn"
    if len(failures) == 1:
        return (
            failures[0] if isinstance(failures[0], PluginEnded) else amended(failures[0], alternative=without)
        )
    error = PluginFailed(
        f"{len(failures)} platform plugins failed",
        why="\n".join(str(failure) for failure in failures),
        fix="correct or uninstall them (pip uninstall "
        + " ".join(sorted({one.plugin.distribution or "" for one in failures if one.plugin} - {""}))
        + f"), or {without}",
    )
    error.__cause__ = failures[0]
    return error
