"""Opens the sources of a host (a wheel, without unpacking it; a folder; an installation) or of a plugin."""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.core.installed.files import LARGEST, Unread, file_bytes, metadata_text
from sglang_platform.core.installed.modules import find_module
from sglang_platform.devtools.source.tree import SourceTree, module_name

__all__ = [
    "kind_of",
    "member_bytes",
    "open_host",
    "open_module",
    "open_plugin",
    "open_wheel",
    "package_files",
    "package_of",
]

_VERSION = re.compile(r"\d+(\.\w+)*")


def open_host(where: str, packages: Collection[str]) -> SourceTree:
    """Open a wheel file, a folder, an installed version ("0.5.23") or whatever is installed ("installed").

    `packages`: the top-level packages of interest; a folder or an environment is searched for these alone. Raises
    ConfigurationError where there is nothing of the kind.
    """
    kind = kind_of(where)
    if kind == "file":
        return open_wheel(Path(where))
    if kind == "folder":
        return _from_folder(Path(where), packages)
    if where == "installed" or _VERSION.fullmatch(where):
        return _from_environment(where, packages)
    raise ConfigurationError(
        f"{where!r} is no host that can be read",
        why=f"{_no_source(where)}, and it is not the number of a version",
        fix="give a wheel file, a source folder, an installed version, or 'installed'",
    )


def kind_of(where: str | Path) -> Literal["file", "folder"] | None:
    """Whether a name is a file or a folder; None for neither, including names that the OS rejects."""
    with contextlib.suppress(OSError, ValueError):
        mode = Path(where).stat().st_mode
        return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else None
    return None


def _no_source(where: str) -> str:
    """The error for a name that is neither a file nor a folder."""
    try:
        Path(where).stat()
    except FileNotFoundError:
        return "there is no such file or folder"
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return "it is no plain file"


def open_plugin(where: str) -> SourceTree:
    """The sources of a plugin: a folder, a Python file, or a module or package that could be imported here."""
    path, kind = Path(where), kind_of(where)
    if kind == "folder":
        return _plugin_folder(path.resolve())
    if kind == "file":
        return _files(where, [(path.resolve(), path.stem)])
    return open_module(where)


def open_module(where: str) -> SourceTree:
    """The sources of a module or package that could be imported here, without those of a project that lies in the
    package, as a template. Raises ConfigurationError as `open_plugin`."""
    found = find_module(where) if all(map(str.isidentifier, where.split("."))) else None
    if found is None:
        raise ConfigurationError(
            f"The plugin {where!r} is not found",
            why="it is no file, no folder, and no module that this environment could import",
            fix="give the folder of its sources, or install it",
        )
    folders = found.search_path
    if folders is not None:
        return _files(where, [pair for folder in folders for pair in _own_modules(Path(folder), where)])
    origin = found.origin
    if origin is None or not origin.endswith(".py"):
        raise ConfigurationError(f"The plugin {where!r} has no Python source", why=f"it is {origin}")
    return _files(where, [(Path(origin), where)])


def package_of(module: str) -> str:
    """The package of an entry point's module: the topmost one that is not a namespace package."""
    parts = module.split(".")
    for count in range(1, len(parts)):
        found = find_module(".".join(parts[:count]))
        if found is not None and not found.is_namespace:
            return ".".join(parts[:count])
    return module


def package_files(module: str) -> list[tuple[str, Path]]:
    """The modules of the part of a distribution that `module` belongs to, as (name, file), tests left out."""
    try:
        tree = open_module(package_of(module))
    except ConfigurationError:
        return []
    return [(name, Path(tree.path(name) or "")) for name in tree.served()]


def open_wheel(path: Path) -> SourceTree:
    """The modules of a wheel, without unpacking it. Raises ConfigurationError for a file that is none."""
    try:
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise ConfigurationError(
            f"{path} cannot be read as a wheel", why=str(error), fix="give a .whl file"
        ) from None
    files = {name: module for name in names if (module := module_name(name)) is not None}
    meta = {name.rpartition("/")[2]: name for name in names if re.fullmatch(r"[^/]+\.dist-info/[^/]+", name)}
    if not files:
        raise ConfigurationError(f"{path} has no Python modules", fix="give a wheel with the host's sources")
    read = member_bytes(archive)
    metadata, entry_points = (
        _text(read, meta[name]) if name in meta else "" for name in ("METADATA", "entry_points.txt")
    )
    known = dict(re.findall(r"^(Name|Version): *(\S+)", metadata, re.MULTILINE))
    label = f"{known['Name']} {known.get('Version', '')} ({path.name})" if "Name" in known else path.name
    return SourceTree(label, files, read, entry_points)


def member_bytes(archive: zipfile.ZipFile) -> Callable[[str], bytes]:
    """Reads members of `archive` by name. Raises Unread for what is damaged, encrypted, or larger than LARGEST."""

    def read(name: str) -> bytes:
        try:
            with archive.open(name) as member:
                text = member.read(LARGEST + 1)
        # RuntimeError: encrypted, or compressed in a way that Python does not know.
        except (
            OSError,
            EOFError,
            KeyError,
            RuntimeError,
            ValueError,
            zipfile.BadZipFile,
            zlib.error,
            lzma.LZMAError,
        ) as error:
            raise Unread(str(error)) from None
        if len(text) > LARGEST:
            raise Unread(f"it is larger than {LARGEST >> 20} MiB")
        return text

    return read


def _from_folder(folder: Path, packages: Collection[str]) -> SourceTree:
    """`folder` is a package itself, or holds packages, directly or under `src` or `python`."""
    folder = folder.resolve()
    if folder.name in packages and any(folder.glob("*.py")):
        tops = [folder]
    else:
        roots = (folder, folder / "python", folder / "src")
        tops = next(
            (
                tops
                for root in roots
                if (tops := [root / name for name in packages if (root / name).is_dir()])
            ),
            [],
        )
    if not tops:
        raise ConfigurationError(
            f"{folder} has none of the packages {', '.join(sorted(packages))}",
            fix="give the folder of the package, the folder that holds it, or the root of a checkout",
        )
    project = next(
        (p for p in (tops[0].parent / "pyproject.toml", folder / "pyproject.toml") if p.is_file()), None
    )
    return _from_packages(str(folder), tops, _text(file_bytes, str(project)) if project else "")


def _from_environment(where: str, packages: Collection[str]) -> SourceTree:
    tops, labels = [], []
    for name in sorted(packages):
        found = find_module(name)
        path = found.search_path if found is not None else None
        if path:
            tops.append(Path(path[0]))
            labels.append(f"{name} {installed_version(name) or ''}".strip())
    versions = [label.partition(" ")[2] for label in labels]
    if not tops or (where != "installed" and where not in versions):
        wanted = " or ".join(sorted(packages)) + ("" if where == "installed" else f" {where}")
        raise ConfigurationError(
            f"{wanted} is not installed in this environment",
            why=f"installed: {', '.join(labels)}" if labels else None,
            fix="download its wheel with `pip download --no-deps`, and give the file",
        )
    return _from_packages(f"{', '.join(labels)} (installed)", tops, _installed_entry_points(packages))


def _installed_entry_points(packages: Collection[str]) -> str:
    from importlib.metadata import PackageNotFoundError, distribution

    texts = []
    for name in packages:
        try:
            texts.append(metadata_text(distribution(name), "entry_points.txt"))
        except (PackageNotFoundError, OSError, ValueError):  # discovery reports what cannot be read
            continue
    return "\n".join(texts)


def _text(read: Callable[[str], bytes], name: str) -> str:
    """A text of the metadata, used to label the host; empty if it is missing, which is no error."""
    with contextlib.suppress(Unread):
        return read(name).decode(errors="replace")
    return ""


def _from_packages(label: str, tops: Iterable[Path], entry_points: str) -> SourceTree:
    files: dict[str, str] = {}
    for top in tops:
        root = str(top.parent)
        for folder, _, names in os.walk(top):
            for name in names:
                path = f"{folder}/{name}"
                module = module_name(path[len(root) + 1 :])
                if module is not None:
                    files[path] = module
    return SourceTree(label, files, file_bytes, entry_points)


def _plugin_folder(folder: Path) -> SourceTree:
    if (folder / "__init__.py").is_file():
        return _files(str(folder), list(_modules(folder, folder.name)))
    root = folder / "src" if (folder / "src").is_dir() else folder
    return _files(str(folder), list(_modules(root, "")))


def _own_modules(folder: Path, package: str) -> Iterator[tuple[Path, str]]:
    """`_modules` but for those in a folder below with a pyproject.toml."""
    projects = {path.parent for path in folder.rglob("pyproject.toml")} - {folder}
    return (pair for pair in _modules(folder, package) if projects.isdisjoint(pair[0].parents))


def _modules(folder: Path, package: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*.py")):
        relative = module_name(path.relative_to(folder).as_posix())
        if relative is not None or path.name == "__init__.py":
            yield path, ".".join(part for part in (package, relative) if part)


def _files(label: str, paths: list[tuple[Path, str]]) -> SourceTree:
    return SourceTree(label, {str(path): name for path, name in paths}, file_bytes)
