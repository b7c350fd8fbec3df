"""The metadata of a release: from a wheel, a checkout or the installation, without importing anything."""

from __future__ import annotations

import zipfile
from pathlib import Path

import importlib_metadata
from packaging.utils import canonicalize_name

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.distributions import metadata_headers
from sglang_platform.core.installed.files import Unread
from sglang_platform.devtools.check.project import (
    Project,
    project_of_folder,
    project_of_metadata,
    project_of_wheel,
)
from sglang_platform.devtools.source.opening import kind_of, open_host
from sglang_platform.devtools.upgrade.release import HOST

__all__ = ["metadata_of"]


def metadata_of(where: str) -> Project:
    """The metadata of what `locate` found. Raises ConfigurationError where it cannot be read or is not SGLang's."""
    try:
        project = _project(where)
    except (
        Unread,
        OSError,
        ValueError,
        zipfile.BadZipFile,
        importlib_metadata.PackageNotFoundError,
    ) as error:
        raise ConfigurationError(
            f"The metadata of {where} cannot be read", why=str(error), fix="give --host a wheel or a version"
        ) from None
    if project.problems:
        problem = project.problems[0]
        raise ConfigurationError(f"The metadata of {where} cannot be read", why=problem.what, fix=problem.fix)
    if canonicalize_name(project.name or "") != HOST:
        raise ConfigurationError(
            f"{where} is no release of {HOST}",
            why=f"its metadata has the name {project.name!r}",
            fix="give --host a version, a wheel of SGLang or a checkout of it",
        )
    return project


def _project(where: str) -> Project:
    kind, path = kind_of(where), Path(where)
    if kind == "file":
        return project_of_wheel(path)
    if kind == "folder":
        inner = path / "python"
        return project_of_folder(inner if (inner / "pyproject.toml").is_file() else path)
    open_host(where, {HOST})  # raises if there is none
    return project_of_metadata(where, str(metadata_headers(HOST)), "")
