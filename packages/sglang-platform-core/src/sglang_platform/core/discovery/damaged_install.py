"""Refuses a launch, or a command, whose own modules of core cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sglang_platform.core.errors import LaunchRefused, PlatformError, PluginOrigin, explain

__all__ = ["CORE", "refusing_without_core"]

CORE = "sglang-platform-core"


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
        raise LaunchRefused(
            f"{CORE} cannot be loaded",
            plugin=PluginOrigin("sglang_platform_core", CORE),
            why=explain(error),
            fix=f"install it and its dependencies again: pip install --force-reinstall {CORE}",
        ) from error
