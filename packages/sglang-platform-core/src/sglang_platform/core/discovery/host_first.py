"""Imports the host before a plugin whose modules import it, to avoid a circular import.

A host resolves its platform during its own import. If a plugin's module started that import, the host would come back
to a partially imported module: a circular import that does not occur in a launch. So a plugin's first import of the
host is aborted, the host is imported as in a launch, and the plugin is queried again.

Needed if core is asked before SGLang is imported (`info`, `list --explain`, `doctor`), for platforms derived from
SGLang's own classes: their modules import SGLang at the top. Three of `tests/foreign_plugins` do.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sglang_platform.core.discovery.kind import PlatformKind
from sglang_platform.core.errors import HostError, LaunchRefused, PluginOrigin, explain
from sglang_platform.core.installed.modules import find_module

__all__ = ["HostWanted", "with_host_first"]

T = TypeVar("T")


class HostWanted(BaseException):
    """A plugin imports the host. Not an `Exception`, so that the plugin's `except` clauses do not catch it."""


class _FirstImport:
    """First finder on `sys.meta_path` while plugins are queried: aborts an import of the host by this thread."""

    delegates = True  # finds nothing by itself: see `installed.modules`

    def __init__(self, package: str) -> None:
        self.package, self.thread = package, threading.get_ident()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.package and threading.get_ident() == self.thread:
            raise HostWanted(name)


def with_host_first(kind: PlatformKind, ask: Callable[[], T], plugin: Callable[[], PluginOrigin | None]) -> T:
    """The result of `ask`. If `ask` imports the host, the host is imported first and `ask` is called again.

    `plugin` is named in errors. Raises what `ask` raises, and HostError if the host cannot be imported with the
    installed plugins.
    """
    package = kind.host.platform_module.partition(".")[0]
    if package in sys.modules or find_module(package) is None:
        return ask()
    finder = _FirstImport(package)
    sys.meta_path.insert(0, finder)
    try:
        return ask()
    except HostWanted:
        pass
    finally:
        sys.meta_path.remove(finder)
    try:
        importlib.import_module(kind.host.platform_module)
    except LaunchRefused as refusal:
        raise refusal.__cause__ or refusal from None
    except Exception as error:
        raise HostError(
            f"{package} cannot be imported with the installed plugins",
            plugin=plugin(),
            why=explain(error),
            fix="see the first cause: a launch fails there as well",
        ) from error
    return ask()
