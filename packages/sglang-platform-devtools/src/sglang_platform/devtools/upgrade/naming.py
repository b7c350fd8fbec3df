"""Resolves names in a plugin to full names of the host, through the plugin's own modules."""

from __future__ import annotations

import functools

from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.module import Module, modules_in
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.release import HOST

__all__ = ["Naming", "is_hosts"]

_FAR = 8
"""How many modules of the plugin a name is followed through."""


def is_hosts(dotted: str) -> bool:
    return dotted == HOST or dotted.startswith(HOST + ".")


class Naming:
    """The names of all modules of one plugin."""

    def __init__(self, plugin: SourceTree) -> None:
        self._plugin = plugin

    def host_name(self, module: Module, parts: tuple[str, ...] | None) -> str | None:
        """The host's full name for ``first.rest`` in a module of the plugin; None if it is not part of the host."""
        full = self.full_name(module, parts)
        return full if full is not None and is_hosts(full) else None

    def full_name(self, module: Module, parts: tuple[str, ...] | None, far: int = _FAR) -> str | None:
        """The full name, of the host or of the plugin, that a dotted name was imported as."""
        if not parts or not far:
            return None
        table, stars = self.imported(module.name)
        first = table.get(parts[0])
        if first is None:
            defined = parts[0] in module.scope.names
            for star in () if defined else stars:
                origin = self._plugin.module(star)
                if origin is not None and parts[0] in {*origin.scope.names, *self.imported(star)[0]}:
                    return self.full_name(origin, parts, far - 1) or ".".join((star, *parts))
            alias = self._alias(module, parts[0])
            return self.full_name(module, (*alias, *parts[1:]), far - 1) if alias is not None else None
        whole = ".".join((first, *parts[1:]))
        if is_hosts(whole):
            return whole
        words = whole.split(".")
        count = modules_in(words[:-1], self._plugin.has)
        if not count:
            return whole
        origin = self._plugin.module(".".join(words[:count]))
        if origin is None or origin is module:
            return whole
        return self.full_name(origin, tuple(words[count:]), far - 1) or whole

    @staticmethod
    def _alias(module: Module, name: str) -> tuple[str, ...] | None:
        found = module.scope.names.get(name, ())
        alias = found[0].alias if len(found) == 1 else None
        return alias if alias is not None and alias[0] != name else None

    @functools.cache  # noqa: B019 - as long as the plugin is read
    def imported(self, name: str) -> tuple[dict[str, str], list[str]]:
        """The names that a module's imports bind, also in functions and under `TYPE_CHECKING`; and its star imports."""
        module = self._plugin.module(name)
        if module is None:
            return {}, []
        found = ImportedNames(module.tree, module.package, for_type_checkers=True)
        return found.names, found.stars
