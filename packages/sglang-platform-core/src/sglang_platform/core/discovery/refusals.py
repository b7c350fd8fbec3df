"""What the rules refuse, and the errors that say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sglang_platform.core.discovery.distribution import UnreadableMetadata
from sglang_platform.core.discovery.failures import amended
from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.settings import ON_ERROR_VARIABLE
from sglang_platform.core.errors import (
    ConfigurationError,
    DuplicatePlugins,
    PlatformError,
    PluginFailed,
    PluginNotFound,
    PluginOrigin,
)
from sglang_platform.core.spelling import nearest

__all__ = [
    "not_found",
    "one_error",
    "refuse_duplicates",
    "refuse_in_tree",
    "refuse_own_names",
    "refuse_unreadable",
]


def refuse_duplicates(found: Iterable[EntryPointRecord]) -> None:
    """Raises DuplicatePlugins where two records of one group have one name."""
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
                fix=f"uninstall all but one of: {', '.join(distributions)}"
                if len(distributions) > 1
                else f"correct the entry points of {distributions[0]}",
            )


def refuse_unreadable(unreadable: Iterable[UnreadableMetadata], kind: PlatformKind) -> None:
    """Raises ConfigurationError where the entry points of a distribution cannot be read: it may hold the platform."""
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
    """Raises PluginFailed where a plugin bears the name of one of the host's own platforms."""
    for record in found:
        if record.name.lower() in kind.own_names:
            raise PluginFailed(
                f"a plugin in {record.group} is named {record.name!r}, as a platform of the host's own",
                plugin=record.origin,
                why=f"the {kind.runtime} runtime keeps these names for itself: {', '.join(sorted(kind.own_names))}",
                fix=f"give the entry point another name, or uninstall {record.origin.distribution}",
            )


def refuse_in_tree(cls: type, origin: PluginOrigin, kind: PlatformKind) -> None:
    """Raises PluginFailed where the host takes out-of-tree platforms only, and `cls` is none."""
    identity = getattr(getattr(cls, "_enum", None), "name", None)
    if kind.out_of_tree_only and identity != "OOT":
        raise PluginFailed(
            f"the {kind.runtime} runtime takes only out-of-tree platforms from plugins, and {cls.__qualname__} is none",
            plugin=origin,
            why=f"{cls.__module__}.{cls.__qualname__} has _enum {identity}",
            fix=f"set _enum = PlatformEnum.OOT, or do not register it in {kind.group} and leave this device to the "
            "host's own platform",
        )


def not_found(name: str, found: Sequence[EntryPointRecord], kind: PlatformKind) -> PluginNotFound:
    """The error for a platform that is named and not installed; it offers what is."""
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
    """The error for the plugins that failed, with the way to go on without them."""
    without = f"go on without it: {ON_ERROR_VARIABLE}=warn"
    if len(failures) == 1:
        return amended(failures[0], without)
    error = PluginFailed(
        f"{len(failures)} platform plugins failed",
        why="\n".join(str(failure) for failure in failures),
        fix=f"correct or uninstall them, or {without}",
    )
    error.__cause__ = failures[0]
    return error
