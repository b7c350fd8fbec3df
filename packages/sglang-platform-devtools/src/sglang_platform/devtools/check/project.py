"""A plugin's metadata: its name, requirements and entry points."""

from __future__ import annotations

import configparser
import email
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_platform.core.installed.files import Unread, file_bytes
from sglang_platform.devtools.check.remark import Remark
from sglang_platform.devtools.source.opening import member_bytes

__all__ = ["Project", "project_of_folder", "project_of_metadata", "project_of_wheel"]

_KINDS: dict[str, type] = {
    "name": str,
    "version": str,
    "requires-python": str,
    "dependencies": list,
    "license-files": list,
    "entry-points": dict,
}
_WRITTEN: dict[type, str] = {str: "a text", list: "a list of texts", dict: "a table"}


@dataclass
class Project:
    """A project's packaging metadata.

    `file`: the metadata file, as findings name it. `problems`: why it cannot be read.
    """

    file: str
    name: str | None = None
    version: str | None = None
    requires_python: str | None = None
    requirements: list[str] = field(default_factory=list)
    entry_points: dict[str, dict[str, str]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    """Files that the metadata names."""
    problems: list[Remark] = field(default_factory=list)
    text: str = ""

    def line_of(self, word: str) -> int | None:
        """The number of the first line with the word, for remarks."""
        found = self.text.find(word)
        return self.text.count("\n", 0, found) + 1 if found >= 0 else None


def project_of_folder(folder: Path) -> Project:
    """The project of a folder, from the `[project]` table of its `pyproject.toml`."""
    path = folder / "pyproject.toml"
    project = Project("pyproject.toml")
    if not os.path.lexists(path):
        return _unreadable(project, "the folder has no pyproject.toml", "write one with a [project] table")
    try:
        project.text = file_bytes(str(path)).decode(errors="replace")
    except Unread as error:
        return _unreadable(project, f"pyproject.toml cannot be read: {error}", "put it right")
    try:
        import tomllib  # type: ignore[import-not-found,unused-ignore]  # not in Python 3.10
    except ImportError:
        return _unreadable(
            project, "this Python cannot read TOML", "run the check with Python 3.11 or later", "note"
        )
    try:
        tables: dict[str, Any] = tomllib.loads(project.text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return _unreadable(project, f"pyproject.toml cannot be read: {error}", "correct that line")
    table = tables.get("project")
    if not isinstance(table, dict):
        return _unreadable(
            project, "pyproject.toml has no [project] table", "write one: name, version, entry points"
        )
    for key, kind in _KINDS.items():
        if not isinstance(table.get(key, kind()), kind):
            return _unreadable(
                project,
                f"{key} in pyproject.toml is {table[key]!r:.60}",
                f"write {_WRITTEN[kind]}, as the specification of pyproject.toml says",
            )
    groups = table.get("entry-points", {})
    for group, entries in groups.items():
        if not isinstance(entries, dict) or not all(isinstance(one, str) for one in entries.values()):
            return _unreadable(
                project,
                f"the entry-point group {group} in pyproject.toml is {entries!r:.60}",
                'write a table of texts: name = "pkg.mod:function"',
            )
    project.name, project.version = table.get("name"), table.get("version")
    project.requires_python = table.get("requires-python")
    project.requirements = [str(one) for one in table.get("dependencies", [])]
    project.entry_points = groups
    readme = table.get("readme")
    project.files = [readme] if isinstance(readme, str) else []
    project.files += [str(one) for one in table.get("license-files", []) if "*" not in str(one)]
    return project


def project_of_wheel(path: Path) -> Project:
    """The project of a wheel; reports files that its RECORD lists and the wheel lacks."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        info = next((one.rpartition("/")[0] for one in names if one.endswith(".dist-info/METADATA")), None)
        if info is None:
            return _unreadable(Project(path.name), "the wheel has no metadata", "build it again")
        read, texts = member_bytes(archive), dict.fromkeys(("METADATA", "entry_points.txt", "RECORD"), "")
        for name in texts:
            if f"{info}/{name}" not in names:
                continue
            try:
                texts[name] = read(f"{info}/{name}").decode(errors="replace")
            except Unread as error:
                return _unreadable(
                    Project(path.name), f"{info}/{name} cannot be read: {error}", "build the wheel again"
                )
    project = project_of_metadata(f"{info}/METADATA", texts["METADATA"], texts["entry_points.txt"])
    listed = {line.partition(",")[0].strip('"') for line in texts["RECORD"].splitlines() if line}
    project.files = sorted(listed - set(names))
    return project


def project_of_metadata(file: str, metadata: str, entry_points: str) -> Project:
    known = email.message_from_string(metadata)
    project = Project(file, known["Name"], known["Version"], known["Requires-Python"], text=metadata)
    project.requirements = known.get_all("Requires-Dist") or []
    reader = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    reader.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        reader.read_string(entry_points)
    except configparser.Error as error:
        why = str(error).partition("\n")[0]
        return _unreadable(project, f"entry_points.txt cannot be read: {why}", "build the distribution again")
    project.entry_points = {group: dict(reader[group]) for group in reader.sections()}
    return project


def _unreadable(project: Project, what: str, fix: str, level: Any = "problem") -> Project:
    project.problems.append(Remark("packaging", "metadata-unread", level, what, project.file, 1, None, fix))
    return project
