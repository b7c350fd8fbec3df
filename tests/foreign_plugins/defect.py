"""One mistake of a vendor's, planted in a worked plugin, and what the first command says of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from installed_plugin import Edit, InstalledPlugin

__all__ = ["Defect", "Place"]


class Place(NamedTuple):
    """A line of the plugin, by a text that only it has."""

    file: str
    text: str


class Defect(NamedTuple):
    """A row of the tables.

    id, severity: of the finding, or the verdict of a hook. says: words of what and why. fix: words of the fix.
    repair: the edits that follow the printed fix, where that is not what undoes the planted one.
    """

    name: str
    plugin: str
    planted: tuple[Edit, ...]
    id: str
    severity: str
    where: Place | None
    says: tuple[str, ...]
    fix: tuple[str, ...]
    repair: tuple[Edit, ...] = ()

    def is_told_by(self, finding: dict[str, Any], plugin: InstalledPlugin) -> bool:
        """Is this the finding: its id, its severity, its place, and every word?"""
        if (finding["id"], finding["severity"]) != (self.id, self.severity):
            return False
        if self.where is not None:
            line = plugin.line(self.where.file, self.where.text)
            if finding["where"] != f"{plugin.folder / self.where.file}:{line}":
                return False
        said = f"{finding['what']} {finding['why']}"
        return all(word in said for word in self.says) and all(word in finding["fix"] for word in self.fix)
