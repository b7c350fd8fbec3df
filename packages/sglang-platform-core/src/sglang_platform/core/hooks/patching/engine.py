"""The engine: the registered hooks, their state, and the errors of hooks that cannot be applied.

Registering does not need the patching code, so `rounds` is imported by the first `apply`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.patching.finder import HookFinder, is_running
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.hooks.report import error_of, warn_of_two
from sglang_platform.core.hooks.types import HookType

if TYPE_CHECKING:
    from sglang_platform.core.hooks.patching.rounds import Rounds

__all__ = ["HookEngine"]


class HookEngine:
    """All state of the hooks in this process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._hooks: dict[str, list[Registration]] = {}
        """By key; no list is empty, except while `discard` undoes its hooks."""
        self._rounds: Rounds | None = None
        """None before `apply` and after `reset`, when no hook is applied."""
        self._watched: dict[str, set[str]] = {}
        self._finder = HookFinder(self._watched, self._module_executed)
        self._listeners: list[Callable[[], None]] = []
        self.late_error: Callable[[HookError], BaseException] = lambda error: error
        """Converts the error of a required hook that fails during its module's import."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Replace the lock: the thread that held it may not exist in the child."""
        self._lock = threading.RLock()

    def when_settled(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each round, when the state of some hooks may have changed."""
        self._listeners.append(listener)

    def add(self, registration: Registration) -> None:
        """Add a hook. After `apply`, also apply it at once, or raise if that fails. The same one again changes nothing:
        a platform registers where the host starts it, which it may do for each model of a process."""
        with self._lock:
            stack = self._hooks.setdefault(registration.key, [])
            earlier = [one for one in stack if one.type is registration.type]
            is_replacement = registration.type is HookType.REPLACE
            if any(map(registration.repeats, earlier[-1:] if is_replacement else earlier)):
                return
            if is_replacement:
                warn_of_two(registration.spelling, earlier, registration)
            stack.append(registration)
            if self._rounds is not None:
                self._rounds.settle([registration.key])
                self._tell()
                _raise(error_of([registration]))

    def discard(self, unwanted: Callable[[Registration], bool]) -> int:
        """Remove and undo hooks; returns their number."""
        with self._lock:
            gone = [one for one in self._all() if unwanted(one)]
            for one in gone:
                self._hooks[one.key].remove(one)
            keys = list(dict.fromkeys(one.key for one in gone))
            if self._rounds is not None:
                self._rounds.settle(keys)
                self._tell()
            for key in [key for key in keys if not self._hooks[key]]:
                del self._hooks[key]
                if self._rounds is not None:
                    self._rounds.forget(key)
            return len(gone)

    def apply(self) -> None:
        """Settle all targets now, and every watched module after it is executed."""
        with self._lock:
            if self._rounds is None:
                # Imported lazily: the patching code (`ast`, `inspect`) takes twice as long to import as registering,
                # and a process that applies no hook should not pay for it. `test_hooks_light` checks this.
                from sglang_platform.core.hooks.patching.rounds import Rounds

                self._rounds = Rounds(self._hooks, self._watched, self._module_executed)
            self._finder.install()
            self._rounds.settle(self._hooks)
            self._tell()
            _raise(error_of(self._all()))

    def reset(self) -> None:
        """Remove all hooks, restore every original and uninstall the import finder."""
        with self._lock:
            self.discard(lambda _: True)
            self._finder.remove()
            self._rounds = None

    def registrations(self) -> list[tuple[Registration, str]]:
        """Every hook in order of registration, with its target's address if known, else its spelling."""
        with self._lock:
            rows = sorted(self._all(), key=lambda one: one.serial)
            for one in rows:
                if one.state == "pending" and self._was_overlooked(one.key):
                    one.why = "its module was loaded past the import system; call apply_hooks() again"
            return [(one, self._name_of(one)) for one in rows]

    def stack(self, key: str) -> list[Registration]:
        """The hooks registered on a key."""
        with self._lock:
            return list(self._hooks.get(key, ()))

    def _all(self) -> list[Registration]:
        return [one for stack in self._hooks.values() for one in stack]

    def _name_of(self, registration: Registration) -> str:
        address = self._rounds.address(registration.key) if self._rounds is not None else None
        return registration.spelling if address is None else str(address)

    def _was_overlooked(self, key: str) -> bool:
        """True if a pending hook's module is already loaded and no event will apply the hook."""
        address = self._rounds.address(key) if self._rounds is not None else None
        if self._rounds is None or address is None:
            return False
        module = sys.modules.get(address.module)
        return module is not None and not is_running(module)

    def _module_executed(self, module: ModuleType, name: str) -> None:
        """Callback of the finder after a module was executed. A required hook that fails makes the import fail."""
        with self._lock:
            if self._rounds is None:
                return
            keys = self._rounds.module_executed(module, name)
            self._tell()
            error = error_of(one for key in keys for one in self._hooks[key])
            if error is not None:
                self._rounds.take_back(keys)
                self._tell()
                raise self.late_error(error) from None

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


def _raise(error: HookError | None) -> None:
    if error is not None:
        raise error
