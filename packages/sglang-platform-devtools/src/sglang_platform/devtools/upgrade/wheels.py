"""A release of the host by version, wheel, folder or `installed`; a version that is not here is downloaded once."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.devtools.source.opening import kind_of, open_host
from sglang_platform.devtools.upgrade.release import HOST, Release

__all__ = ["cache_folder", "locate", "open_release"]

_log = logging.getLogger(__name__)

_VERSION = re.compile(r"\d+(\.\w+)+")
_LONGEST = 600
"""Timeout of a download in seconds."""


def open_release(where: str, wheels: Path | None = None, *, download: bool = True) -> Release:
    """Open a release. Raises ConfigurationError if there is none, naming the places that were searched."""
    return Release(open_host(locate(where, wheels, download=download), {HOST}))


def locate(where: str, wheels: Path | None = None, *, download: bool = True) -> str:
    """Where a release is: for a version the wheel's file, or the version itself if that is installed.

    Anything else is returned as given. Raises ConfigurationError as `open_release`.
    """
    if kind_of(where) or where == "installed" or not _VERSION.fullmatch(where):
        return where
    folders = [*([wheels] if wheels is not None else []), cache_folder()]
    for folder in folders:
        found = _in_folder(folder, where)
        if found is not None:
            return str(found)
    try:
        open_host(where, {HOST})
    except ConfigurationError as error:
        if not download:
            looked = ", ".join(map(str, folders))
            raise ConfigurationError(
                f"There is no {HOST} {where} here",
                why=f"looked in {looked}; {error.why or 'none is installed'}",
                fix="give --wheels with a folder of wheels, or leave out --no-download",
            ) from None
        return str(_download(where, cache_folder()))
    return where


def cache_folder() -> Path:
    """Where downloaded wheels are kept: `$XDG_CACHE_HOME/sglang-platform/wheels`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "sglang-platform" / "wheels"


def _in_folder(folder: Path, version: str) -> Path | None:
    if kind_of(folder) != "folder":
        return None
    return next(iter(sorted(folder.glob(f"{HOST}-{version}-*.whl"))), None)


def _download(version: str, folder: Path) -> Path:
    """Download by pip from its configured index, without dependencies. The wheel appears atomically."""
    _log.info("downloading %s %s", HOST, version)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as staging:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
            staging,
            f"{HOST}=={version}",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _failed(version, str(error)) from None
        found = _in_folder(Path(staging), version)
        if done.returncode or found is None:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise _failed(
                version,
                next((one for one in lines if "ERROR" in one), lines[-1] if lines else "no wheel came"),
            )
        return found.replace(folder / found.name)


def _failed(version: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{HOST} {version} could not be downloaded",
        why=why.removeprefix("ERROR: ")[:300],
        fix="check the version, or give --wheels with a folder that has the wheel",
    )
