"""Installations that broke off: files that a distribution's RECORD lists and that are not there.

Python reports such a file as an import error far from the cause. The hash of each file is compared by `doctor` alone.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sglang_platform.core.errors import LaunchRefused, PlatformError, PluginOrigin, cause_chain, explain

__all__ = ["CORE", "missing_files", "missing_files_behind", "refusing_without_core"]

CORE = "sglang-platform-core"


def missing_files(distribution: str) -> list[str]:
    """The files in RECORD that do not exist. Empty for an editable installation, whose RECORD lists no sources."""
    import importlib_metadata

    try:
        found = importlib_metadata.distribution(distribution)
        # `found.files` leaves out missing files.
        names = [row[0] for row in csv.reader((found.read_text("RECORD") or "").splitlines()) if row]
        # Installers write the scripts, which lie outside, anew.
        inside = [name for name in names if name and not name.startswith(("/", ".."))]
        return [name for name in inside if not os.path.lexists(str(found.locate_file(name)))]
    except Exception:  # noqa: BLE001  (not installed, or its metadata is damaged: nothing is known)
        return []


def missing_files_behind(error: BaseException, distribution: str | None) -> tuple[str, str] | None:
    """(why, fix) where an import error may come of a missing file of `distribution` or of core; else None."""
    if not any(isinstance(link, ImportError | FileNotFoundError) for link in cause_chain(error)):
        return None
    for name in filter(None, (distribution, CORE)):
        if missing := missing_files(name):
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            return (
                f"files of {name} are missing: {', '.join(missing[:3])}{more}",
                f"install it again: pip install --force-reinstall --no-deps {name}",
            )
    return None


@contextmanager
def refusing_without_core() -> Iterator[None]:
    """Around imports of core's modules that SGLang or a command begins: any error raises LaunchRefused.

    SGLang logs and drops an `Exception` of a plugin, and would serve on its own platform.
    """
    try:
        yield
    except PlatformError as error:
        raise LaunchRefused.because(error) from error
    except Exception as error:
        again = f"install it and its dependencies again: pip install --force-reinstall {CORE}"
        why, fix = missing_files_behind(error, CORE) or ("", again)
        raise LaunchRefused(
            f"{CORE} cannot be loaded",
            plugin=PluginOrigin("sglang_platform_core", CORE),
            why=f"{why}\n{explain(error)}".strip(),
            fix=fix,
        ) from error
