"""A plugin named by its entry point or its distribution, told from metadata alone."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import PLUGIN_GROUPS, SRT, PlatformKind
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import ConfigurationError, PluginNotFound, PluginOrigin
from sglang_platform.core.spelling import nearest

__all__ = ["NamedPlugin", "known_names", "platform_named", "plugin_named"]


class NamedPlugin(NamedTuple):
    """An installed distribution with plugins."""

    distribution: str
    records: tuple[EntryPointRecord, ...]
    """All its entry points that SGLang or this project reads."""

    def platform(self, kind: PlatformKind = SRT) -> str:
        """The name of its platform. Raises ConfigurationError if it has none, or several."""
        names = sorted({record.name for record in self.records if record.group == kind.group})
        if len(names) == 1:
            return names[0]
        origin = PluginOrigin(self.distribution, self.distribution, self.records[0].origin.version)
        if names:
            raise ConfigurationError(
                f"{self.distribution} has {len(names)} platforms: {', '.join(names)}",
                plugin=origin,
                fix="name one of them",
            )
        groups = sorted({record.group for record in self.records})
        raise ConfigurationError(
            f"{self.distribution} has no platform of the {kind.runtime} runtime",
            plugin=origin,
            why=f"it has no entry point in {kind.group}; it has some in {', '.join(groups)}",
            fix="name a plugin with a platform: sglang-platform list",
        )


def platform_named(word: str, kind: PlatformKind = SRT) -> str:
    """The entry-point name of a platform. Raises as `plugin_named` and `NamedPlugin.platform`.

    Two distributions may register one name; that is for the decision to refuse.
    """
    if any(record.name == word for record in scan.records(kind.group)):
        return word
    return plugin_named(word).platform(kind)


def plugin_named(word: str) -> NamedPlugin:
    """The installed plugin that `word` names. Raises PluginNotFound, and ConfigurationError if there are several."""
    records = scan.scan().records
    found = sorted({record.origin.distribution or "" for record in records if _is_named(record, word)})
    if len(found) > 1:
        raise ConfigurationError(
            f"{word!r} names {len(found)} plugins",
            why=f"it is an entry point or the distribution of each of {', '.join(found)}",
            fix="name the distribution",
        )
    if not found:
        raise _not_found(word)
    own = tuple(record for record in records if record.origin.distribution == found[0])
    return NamedPlugin(found[0], own)


def known_names() -> dict[str, list[str]]:
    """The names by which the installed plugins go: those of entry points and distributions."""
    records = [one for one in scan.scan().records if one.group in PLUGIN_GROUPS and one.name != OWN_PLUGIN]
    return {
        "entry points": sorted({one.name for one in records}),
        "distributions": sorted({one.origin.distribution or "" for one in records} - {""}),
    }


def _is_named(record: EntryPointRecord, word: str) -> bool:
    if record.group in PLUGIN_GROUPS and record.name == word:
        return True
    return record.origin.distribution is not None and normalize(record.origin.distribution) == normalize(word)


def _not_found(word: str) -> PluginNotFound:
    known = known_names()
    meant = nearest(word, itertools.chain(*known.values()))
    lines = [
        "it is none of these names",
        *(f"{kind}: {', '.join(names) or 'none'}" for kind, names in known.items()),
    ]
    lines += [f"cannot be read: {one.path}: {one.reason}" for one in scan.scan().unreadable]
    return PluginNotFound(
        f"{word!r} names no installed plugin" + (f"; did you mean {meant!r}?" if meant else ""),
        why="\n".join(lines),
        fix=(f"write {meant}, or " if meant else "") + "pip install the package that brings it",
    )
