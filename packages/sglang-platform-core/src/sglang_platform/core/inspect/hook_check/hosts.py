"""Opening a release of a host: from its wheel, without unpacking it, from a source folder, or where it is installed."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path

from sglang_platform.core.discovery.versions import installed_version
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.hooks.targets import find_module
from sglang_platform.core.inspect.hook_check.sources import HostSource, module_name

__all__ = ["open_host"]

_VERSION = re.compile(r"\d+(\.\w+)*")


def open_host(where: str, packages: Collection[str]) -> HostSource:
    """Open a wheel file, a folder, an installed version ("0.5.23") or whatever is installed ("installed").

    `packages`: the top-level packages of interest; a folder or an environment is searched for these alone. Raises
    ConfigurationError where there is nothing of the kind.
    """
    path = Path(where)
    if path.is_file():
        return _from_wheel(path)
    if path.is_dir():
        return _from_folder(path, packages)
    if where == "installed" or _VERSION.fullmatch(where):
        return _from_environment(where, packages)
    raise ConfigurationError(
        f"{where!r} is no host that can be read",
        why="there is no such file or folder, and it is not the number of a version",
        fix="give a wheel file, a source folder, an installed version, or 'installed'",
    )


def _from_wheel(path: Path) -> HostSource:
    try:
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigurationError(
            f"{path} cannot be read as a wheel", why=str(error), fix="give a .whl file"
        ) from None
    files = {name: module for name in names if (module := module_name(name)) is not None}
    meta = {name.rpartition("/")[2]: name for name in names if re.fullmatch(r"[^/]+\.dist-info/[^/]+", name)}
    if not files:
        raise ConfigurationError(f"{path} has no Python modules", fix="give a wheel with the host's sources")
    metadata = archive.read(meta["METADATA"]).decode() if "METADATA" in meta else ""
    entry_points = archive.read(meta["entry_points.txt"]).decode() if "entry_points.txt" in meta else ""
    known = dict(re.findall(r"^(Name|Version): *(\S+)", metadata, re.MULTILINE))
    label = f"{known['Name']} {known.get('Version', '')} ({path.name})" if "Name" in known else path.name
    return HostSource(label, files, archive.read, entry_points)


def _from_folder(folder: Path, packages: Collection[str]) -> HostSource:
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
    return _from_packages(str(folder), tops, project.read_text() if project else "")


def _from_environment(where: str, packages: Collection[str]) -> HostSource:
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
            texts.append(distribution(name).read_text("entry_points.txt") or "")
        except PackageNotFoundError:
            continue
    return "\n".join(texts)


def _from_packages(label: str, tops: Iterable[Path], entry_points: str) -> HostSource:
    files: dict[str, str] = {}
    for top in tops:
        root = str(top.parent)
        for folder, _, names in os.walk(top):
            for name in names:
                path = f"{folder}/{name}"
                module = module_name(path[len(root) + 1 :])
                if module is not None:
                    files[path] = module
    return HostSource(label, files, lambda path: Path(path).read_bytes(), entry_points)
