"""A load that a process runs once, and whose failure is final."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sglang_platform.core.errors import LaunchRefused, PlatformError, PluginFailed, explain

__all__ = ["OneLoad", "forget_loads", "refuse_after_failure"]


class OneLoad:
    """Something that a process loads once. After a failure each further call is refused.

    A plugin that failed half way may have registered operators, patched functions and lost the hooks of its
    decorators, so running it again could succeed and still lack a part that other processes have.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.begun = False
        self.error: PlatformError | LaunchRefused | None = None
        _loads.append(self)

    def run(self, load: Callable[[], None]) -> None:
        """Call `load` unless an earlier call did; a call from inside `load` does nothing, other threads wait."""
        with self.lock:
            self.refuse_after_failure()
            if self.begun:
                return
            self.begun = True
            try:
                load()
            except (PlatformError, LaunchRefused) as error:
                self.error = error
                raise
            except BaseException as error:
                self.error = PluginFailed("the loading of the plugins was interrupted", why=explain(error))
                self.error.__cause__ = error
                raise

    def refuse_after_failure(self) -> None:
        """Raise the error of the first call again, if it failed."""
        first = self.error
        if first is not None:
            why = "a process loads its plugins once, and this one failed before"
            raise type(first)(
                first.what,
                plugin=first.plugin,
                why=f"{first.why}\n{why}" if first.why else why,
                fix=f"{first.fix}; then start a new process" if first.fix else "start a new process",
            ) from first.__cause__


_loads: list[OneLoad] = []


def refuse_after_failure() -> None:
    """Raise the error again with which a load of this process failed."""
    for load in _loads:
        load.refuse_after_failure()


def forget_loads() -> None:
    """Let every load run again. For tests."""
    for load in _loads:
        with load.lock:
            load.begun, load.error = False, None
