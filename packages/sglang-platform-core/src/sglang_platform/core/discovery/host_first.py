"""The order in which a plugin's modules are imported: the host first, where they import it.

A host asks for its platform while it is imported itself. If a plugin's module began that import, the host comes back to
a module that is not finished: a circle that no launch has. So a plugin's first import of the host is stopped, the host
is imported as by a launch, and the plugin is asked again.

Needed where core is asked before SGLang is imported (`info`, `list --explain`, `doctor`), by platforms derived from
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
    """A plugin imports the host. No `Exception`: its own `except ImportError` is not for it."""


class _FirstImport:
    """First on `sys.meta_path` while plugins are asked: stops the import of the host by this thread."""

    delegates = True  # it finds nothing itself: see `installed.modules`

    def __init__(self, package: str) -> None:
        self.package, self.thread = package, threading.get_ident()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.package and threading.get_ident() == self.thread:
            raise HostWanted(name)


def with_host_first(kind: PlatformKind, ask: Callable[[], T], plugin: Callable[[], PluginOrigin | None]) -> T:
    """The result of `ask`; where it imports the host, the host is imported and `ask` is called again.

    `plugin` is named in errors. Raises what `ask` raises, and HostError where the host cannot be imported with the
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
