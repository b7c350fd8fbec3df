"""Detects incomplete installations: files that a distribution's RECORD lists but that do not exist.

Python reports such a file as an import error far from the cause. Only `doctor` also compares file hashes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sglang_platform.core.errors import LaunchRefused, PlatformError, PluginOrigin, cause_chain, explain
from sglang_platform.core.installed.distributions import recorded_files

__all__ = ["CORE", "missing_files", "missing_files_behind", "refusing_without_core"]

CORE = "sglang-platform-core"


def missing_files(distribution: str) -> list[str]:
    """The files in RECORD that do not exist. Empty for an editable installation, whose RECORD lists no sources."""
    return [name for path, name, *_ in recorded_files(distribution) if not os.path.lexists(path)]


def missing_files_behind(error: BaseException, distribution: str | None) -> tuple[str, str] | None:
    """(why, fix) if a missing file of `distribution` or of core may explain an import error; else None."""
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
    """Context for imports of core's modules by SGLang or a command: turns any error into LaunchRefused.

    SGLang logs and swallows an `Exception` of a plugin, and would fall back to its own platform.
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
