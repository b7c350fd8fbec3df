"""The sources of a plugin, from a folder, a wheel, or where it is installed, with the texts that name entry points."""

from __future__ import annotations

import ast
import contextlib
import csv
import functools
import json
import os
import re
from email.parser import HeaderParser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from sglang_platform.core.discovery.named import plugin_named
from sglang_platform.core.errors import ConfigurationError, PluginNotFound
from sglang_platform.core.installed.files import Unread, file_bytes, metadata_text
from sglang_platform.core.installed.modules import find_module
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.opening import kind_of, open_plugin, open_wheel, package_files
from sglang_platform.devtools.source.tree import SourceTree, module_name
from sglang_platform.devtools.upgrade.coupling import SourcePlace

__all__ = ["PluginSource", "open_source"]

_METADATA = ("pyproject.toml",)
_ENTRY = re.compile(r"""=\s*["']?([\w.]+)(?::([\w.]+))?""")


class PluginSource:
    """`metadata`: texts that name entry points, by file name. `root`: files are shown relative to it."""

    def __init__(self, label: str, tree: SourceTree, root: Path | None, metadata: dict[str, str]) -> None:
        self.label, self.tree, self.root, self.metadata = label, tree, root, metadata

    @property
    def entry_points(self) -> list[str]:
        """``module:function`` of each entry point that the metadata names."""
        texts = "\n".join(self.metadata.values())
        return [f"{one[1]}:{one[2] or ''}" for one in _ENTRY.finditer(texts) if self.tree.has(one[1])]

    def file(self, module: str) -> str:
        return self._relative(self.tree.path(module) or module)

    def place(self, module: Module, node: ast.AST) -> SourcePlace:
        line = getattr(node, "lineno", 1)
        return SourcePlace(self._relative(module.path), line, self._line(module.name, line))

    def place_of(self, where: str) -> SourcePlace:
        """``path:line (why)`` as a place."""
        found = re.match(r"(.*?):(\d+)", where)
        if found is None:
            return SourcePlace(self._relative(where), 1)
        line, module = int(found[2]), self._modules.get(found[1], "")
        return SourcePlace(self._relative(found[1]), line, self._line(module, line))

    @functools.cached_property
    def _modules(self) -> dict[str, str]:
        return {self.tree.path(name) or "": name for name in self.tree.served()}

    def _line(self, module: str, number: int) -> str:
        lines = self.tree.text(module).decode(errors="replace").splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def _relative(self, path: str) -> str:
        if self.root is not None:
            try:
                return Path(path).relative_to(self.root).as_posix()
            except ValueError:
                return path
        return path


def open_source(where: str) -> PluginSource:
    """A folder (a word with a slash, or `.`), a wheel, a Python file, or what is installed: a plugin, a module.

    Raises ConfigurationError where it is none of these, and for a folder or distribution without Python sources.
    """
    path, kind = Path(where), kind_of(where)
    is_file = kind == "file"
    if path.suffix == ".whl" or (is_file and path.suffix != ".py"):
        if not is_file:
            raise ConfigurationError(
                f"The plugin {where!r} is not found", why="there is no such file", fix="give the wheel's path"
            )
        tree = open_wheel(path)
        return PluginSource(tree.label, tree, None, {"entry_points.txt": tree.entry_points})
    if is_file:
        return PluginSource(where, open_plugin(where), path.resolve().parent, {})
    if kind == "folder" and (os.sep in where or where in (".", "..")):
        return _folder(path)
    try:
        distribution = plugin_named(where).distribution
    except PluginNotFound as unknown:
        return _installed(where) or _module(where, unknown)
    found = _installed(distribution)
    assert found is not None
    return found


def _folder(path: Path) -> PluginSource:
    tree = open_plugin(str(path))
    root = path.resolve()
    if not tree.top_packages:
        raise ConfigurationError(
            f"The folder {path} has no Python source", fix="give the folder of the plugin's project"
        )
    return PluginSource(path.name or str(root), tree, root, _texts(root))


def _module(name: str, unknown: PluginNotFound) -> PluginSource:
    """A module that is no plugin's. Raises `unknown` where there is none."""
    if not all(map(str.isidentifier, name.split("."))) or find_module(name) is None:
        raise unknown
    return PluginSource(name, open_plugin(name), None, {})


def _texts(root: Path) -> dict[str, str]:
    texts = {}
    for name in _METADATA:
        with contextlib.suppress(Unread):  # `check` reports the error
            texts[name] = file_bytes(str(root / name)).decode(errors="replace")
    return texts


def _installed(name: str) -> PluginSource | None:
    """The distribution of this name; None where none is installed."""
    try:
        found = distribution(name)
    except (PackageNotFoundError, ValueError):
        return None
    try:
        headers = HeaderParser().parsestr(metadata_text(found, "METADATA"))
        entry_points = metadata_text(found, "entry_points.txt")
        # For an editable installation RECORD lists only the link to the sources: a .pth file or a finder module.
        listed = [] if _is_editable(found) else _listed(metadata_text(found, "RECORD"))
    except Unread as error:
        raise ConfigurationError(
            f"The metadata of {name} cannot be read", why=str(error), fix="install it again"
        ) from None
    label = f"{headers['Name']} {headers['Version']}"
    modules = sorted({value.partition(":")[0].strip() for value in re.findall(r"=\s*([\w.]+)", entry_points)})
    if listed:
        root = Path(str(found.locate_file("")))
        tree = _tree_of(label, [root / one for one in listed if kind_of(root / one) == "file"], root)
        return PluginSource(label, tree, root, {"entry_points.txt": entry_points})
    pairs = dict(
        pair for one in modules for pair in package_files(one)
    )  # an editable installation lists no sources
    if not pairs:
        raise ConfigurationError(
            f"{label} has no Python source that can be found",
            why="its metadata lists none, and its entry points lead to none",
            fix="give the folder of its sources",
        )
    root = _project_of(next(iter(pairs.values())))
    tree = SourceTree(label, {str(path): module for module, path in pairs.items()}, file_bytes)
    return PluginSource(label, tree, root, {"entry_points.txt": entry_points})


def _is_editable(found: Distribution) -> bool:
    """True for an editable installation, by its `direct_url.json`."""
    try:
        told = json.loads(metadata_text(found, "direct_url.json") or "{}")
        return bool(told["dir_info"]["editable"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, Unread):
            raise
        return False


def _listed(record: str) -> list[str]:
    """The Python files that RECORD lists below the installation folder; malformed lines are skipped."""
    names = []
    for line in record.splitlines():
        with contextlib.suppress(csv.Error, IndexError, StopIteration):
            names.append(next(csv.reader([line]))[0])
    return [
        one for one in names if one.endswith(".py") and not one.startswith("/") and ".." not in one.split("/")
    ]


def _tree_of(label: str, files: list[Path], root: Path) -> SourceTree:
    named = {
        str(path): name
        for path in files
        if (name := module_name(path.relative_to(root).as_posix())) is not None
    }
    return SourceTree(label, named, file_bytes)


def _project_of(path: Path) -> Path:
    """The project folder that contains a file; the file's own folder if there is none."""
    return next((one for one in path.parents if (one / "pyproject.toml").is_file()), path.parent)
