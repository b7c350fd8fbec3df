"""A plugin named by its entry point, its distribution, its module or its folder, told from metadata alone.

Every command takes all four. A word that names two plugins is refused, as is one that names none.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.distribution import normalize
from sglang_platform.core.discovery.groups import OWN_PLUGIN
from sglang_platform.core.discovery.kind import PLUGIN_GROUPS, SRT, PlatformKind
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import ConfigurationError, PluginNotFound, PluginOrigin
from sglang_platform.core.installed.files import Unread, file_bytes
from sglang_platform.core.installed.modules import find
from sglang_platform.core.spelling import nearest

__all__ = ["NamedPlugin", "known_names", "platform_named", "plugin_named", "reads_folder"]

_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "__init__.py", "src")


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
    found = _found(word)
    names = {record.name for record in scan.records(kind.group) if record.origin.distribution in found}
    if names == {word}:
        return word
    plugin = plugin_named(word)
    own = {record.name for record in plugin.records if record.group == kind.group}
    values = {record.name for record in plugin.records if record.group == kind.group and record.value == word}
    return word if word in own else values.pop() if len(values) == 1 else plugin.platform(kind)


def plugin_named(word: str) -> NamedPlugin:
    """The installed plugin that `word` names. Raises PluginNotFound, and ConfigurationError if there are several."""
    found = _found(word)
    if len(found) == 1:
        (distribution,) = found
        records = tuple(one for one in scan.scan().records if one.origin.distribution == distribution)
        if records:
            return NamedPlugin(distribution, records)
    if len(found) > 1:
        raise _ambiguous(word, found)
    raise _not_found(word)


def known_names() -> dict[str, list[str]]:
    """The names by which the installed plugins go: those of entry points, distributions and modules."""
    records = [one for one in scan.scan().records if one.group in PLUGIN_GROUPS and one.name != OWN_PLUGIN]
    return {
        "entry points": sorted({one.name for one in records}),
        "distributions": sorted({one.origin.distribution or "" for one in records} - {""}),
        "modules": sorted({_module(one) for one in records}),
    }


def reads_folder(word: str) -> bool:
    """Whether a command that reads sources reads the folder `word`. Raises ConfigurationError if an installed plugin
    of another project has that name."""
    if not _is_folder(word):
        return False
    carriers = _carriers(Path(word))
    found = _by_name(word)
    if not found or found.keys() & set(carriers):
        return True
    folder = _with_folder(word, found)
    if len(folder) > len(found):
        raise _ambiguous(word, folder)
    return False


def _found(word: str) -> dict[str, list[str]]:
    """Distribution -> what of it `word` is."""
    return _with_folder(word, _by_name(word))


def _by_name(word: str) -> dict[str, list[str]]:
    if not word or _is_path(word):
        return {}
    return _carried(word, _ways) or _carried(word, _ways_of_packages)


def _with_folder(word: str, named: dict[str, list[str]]) -> dict[str, list[str]]:
    """`named`, with the folder of that name. A project that no installed plugin comes from stands for itself."""
    if not _is_folder(word):
        return named
    path = Path(word)
    found = {name: list(ways) for name, ways in named.items()}
    carriers = _carriers(path)
    for distribution in carriers:
        found.setdefault(distribution, []).append("folder")
    if not carriers and found and any((path / name).exists() for name in _PROJECT_FILES):
        found[str(path.resolve())] = ["folder"]
    return found


def _carried(word: str, ways: Callable[[str, EntryPointRecord], Iterator[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for record in scan.scan().records:
        for way in ways(word, record):
            known = found.setdefault(record.origin.distribution or "", [])
            if way not in known:
                known.append(way)
    return found


def _ways(word: str, record: EntryPointRecord) -> Iterator[str]:
    if normalize(word) == normalize(record.origin.distribution or ""):
        yield "distribution"
    if record.group in PLUGIN_GROUPS and word == record.name:
        yield "entry point"
    if record.group in PLUGIN_GROUPS and word in (_module(record), record.value):
        yield "module"


def _ways_of_packages(word: str, record: EntryPointRecord) -> Iterator[str]:
    """A package above the entry point's module, or a module in it."""
    module = _module(record)
    is_related = module.startswith(f"{word}.") or word.startswith(f"{module}.")
    if is_related and record.group in PLUGIN_GROUPS:
        yield "module"


def _module(record: EntryPointRecord) -> str:
    return record.value.partition("[")[0].partition(":")[0].strip()


def _is_path(word: str) -> bool:
    return os.sep in word or word in (".", "..")


def _is_folder(word: str) -> bool:
    return bool(word) and os.path.isdir(word)  # noqa: PTH112 - a Path raises for a name that is too long


def _carriers(folder: Path) -> list[str]:
    """The installed distributions with plugins whose project is in this folder, or whose modules are."""
    records = scan.scan().records
    name = _project_name(folder)
    known = {one.origin.distribution for one in records if one.origin.distribution}
    by_name = [one for one in known if name and normalize(one) == normalize(name)]
    if name:
        return by_name
    place = folder.resolve()
    found = {
        record.origin.distribution
        for record in records
        if record.group in PLUGIN_GROUPS and record.origin.distribution and _lies_in(_module(record), place)
    }
    return sorted(found)


def _project_name(folder: Path) -> str | None:
    """The name in the `[project]` table of its `pyproject.toml`; Python 3.10 has no reader of TOML."""
    try:
        text = file_bytes(str(folder / "pyproject.toml")).decode(errors="replace")
    except Unread:
        return None
    table = re.search(r"^\[project\][^\n]*\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    name = re.search(r"^name\s*=\s*[\"']([^\"']+)[\"']", table[1], re.MULTILINE) if table else None
    return name[1] if name else None


def _lies_in(module: str, folder: Path) -> bool:
    spec = find(module)[0]
    places = [spec.origin] if spec is not None and spec.has_location else []
    return any(place and Path(place).resolve().is_relative_to(folder) for place in places)


def _ambiguous(word: str, found: dict[str, list[str]]) -> ConfigurationError:
    return ConfigurationError(
        f"{word!r} names {len(found)} plugins",
        why="\n".join(f"{name}: its {' and '.join(ways)}" for name, ways in sorted(found.items())),
        fix="name the distribution, or a folder with a slash, as in ./folder",
    )


def _not_found(word: str) -> PluginNotFound:
    known = known_names()
    meant = nearest(word.rstrip("/"), itertools.chain(*known.values()))
    if _is_folder(word):
        why, fix = "no installed plugin comes from that folder", f"pip install -e {word}"
    elif _is_path(word):
        why, fix = "there is no such folder", "give a folder that exists, or a name"
    else:
        why = "it is no folder here, and none of these names"
        fix = f"write {meant}, or " if meant else ""
        fix += "pip install the package that brings it"
    lines = [why, *(f"{kind}: {', '.join(names) or 'none'}" for kind, names in known.items())]
    lines += [f"cannot be read: {one.path}: {one.reason}" for one in scan.scan().unreadable]
    return PluginNotFound(
        f"{word!r} names no installed plugin" + (f"; did you mean {meant!r}?" if meant else ""),
        why="\n".join(lines),
        fix=fix,
    )
