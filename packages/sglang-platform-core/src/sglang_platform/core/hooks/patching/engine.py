"""Decides when a target is settled: when what stands in its place agrees with the hooks registered on it.

That happens in rounds: by `apply_hooks()`, when a watched module has run, and by a registration that comes later. After
a round, the references to what it changed are brought along in one pass.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from sglang_platform.core.errors import HookError, HookTargetError
from sglang_platform.core.hooks.patching.failures import raise_failures, warn_of_failure, warn_of_two
from sglang_platform.core.hooks.patching.finder import HookFinder, is_running, loaded, when_finished
from sglang_platform.core.hooks.registration import HookType, Registration
from sglang_platform.core.hooks.targets import Target, resolve
from sglang_platform.core.source.address import Address

if TYPE_CHECKING:
    from sglang_platform.core.hooks.patching.lazy_names import LazyNames
    from sglang_platform.core.hooks.patching.sites import Sites

__all__ = ["HookEngine"]


class HookEngine:
    """All state of the hooks in this process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._hooks: dict[str, list[Registration]] = {}
        self._targets: dict[str, Target] = {}
        self._addresses: dict[str, Address] = {}
        self._lazy: dict[str, LazyNames] = {}
        self._watched: dict[str, set[str]] = {}
        self._finder = HookFinder(self._watched, self._module_executed)
        self._armed = False
        self._made_sites: Sites | None = None
        self._listeners: list[Callable[[], None]] = []
        self.late_error: Callable[[HookError], BaseException] = lambda error: error
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """Another thread may have held the lock, and does not exist in the child."""
        self._lock = threading.RLock()

    def when_settled(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each round, when the state of some hooks may have changed."""
        self._listeners.append(listener)

    def add(self, target: Target, registration: Registration) -> None:
        """Keep a hook; once `apply` was called, also put it in force, or say why not."""
        with self._lock:
            stack = self._hooks.setdefault(target.key, [])
            if registration.type is HookType.REPLACE:
                earlier = [one for one in stack if one.type is HookType.REPLACE]
                if earlier and registration.repeats(earlier[-1]):
                    return
                warn_of_two(registration.spelling, earlier, registration)
            stack.append(registration)
            self._targets[target.key] = target
            if self._armed:
                self._settle([target.key])
                raise_failures([registration])

    def discard(self, unwanted: Callable[[Registration], bool]) -> int:
        """Drop hooks and take them out of force; returns how many."""
        with self._lock:
            keys, count = [], 0
            for key, stack in self._hooks.items():
                left = [one for one in stack if not unwanted(one)]
                if len(left) < len(stack):
                    keys.append(key)
                    count += len(stack) - len(left)
                    stack[:] = left
            if self._armed:
                self._settle(keys)
            for key in keys:
                if not self._hooks[key]:
                    self._forget(key)
            return count

    def apply(self) -> None:
        """Settle all targets, and from now on every watched module as it runs."""
        with self._lock:
            self._armed = True
            self._finder.install()
            self._settle(self._hooks)
            raise_failures([one for stack in self._hooks.values() for one in stack])

    def reset(self) -> None:
        """Drop everything, restore every original, leave the import system."""
        with self._lock:
            self.discard(lambda _: True)
            self._finder.remove()
            self._armed = False

    def registrations(self) -> list[tuple[Registration, str]]:
        """Every hook as registered, with its target's name as far as it is known."""
        with self._lock:
            rows = sorted(
                (one for stack in self._hooks.values() for one in stack), key=lambda one: one.serial
            )
            for one in rows:
                address = self._addresses.get(one.key)
                if self._armed and one.state == "pending" and address is not None:
                    module = sys.modules.get(address.module)
                    lazy = self._lazy.get(address.module)
                    if module is not None and lazy is None and not is_running(module):
                        one.why = "its module was loaded past the import system; call apply_hooks() again"
            return [(one, str(self._addresses.get(one.key, one.spelling))) for one in rows]

    def stack(self, key: str) -> list[Registration]:
        """The hooks registered on a key."""
        with self._lock:
            return list(self._hooks.get(key, ()))

    @property
    def _sites(self) -> Sites:
        """Made on first use: a process that only registers needs none of the patching code."""
        if self._made_sites is None:
            from sglang_platform.core.hooks.patching.sites import Sites

            self._made_sites = Sites(self._hooks)
        return self._made_sites

    def _settle(self, keys: Collection[str], executed: str | None = None) -> None:
        """One round, and another for methods where a class has changed: their hooks belong on the one in force."""
        from sglang_platform.core.hooks import existence

        self._settle_each(keys, executed)
        while self._sites.bring_along():
            self._settle_each([key for key, at in self._addresses.items() if len(at.path) > 1], executed)
        existence.forget()
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def _settle_each(self, keys: Iterable[str], executed: str | None) -> None:
        for key in sorted(keys, key=self._rank):
            if not self._hooks[key]:
                self._sites.leave(key)
                continue
            module = self._module_of(key, executed)
            if module is not None:
                self._settle_in(module, key)

    def _rank(self, key: str) -> tuple[bool, int, str]:
        """Replaced classes first, so that hooks on their methods land on the replacement."""
        replaces = any(isinstance(one.hook, type) for one in self._hooks[key])
        return (not replaces, key.count("."), key)

    def _module_of(self, key: str, executed: str | None) -> ModuleType | None:
        """The target's module, if it has run. If not, it is watched, and its source is asked for the target."""
        address = self._addresses.get(key)
        if address is None or any(one.error is HookTargetError for one in self._hooks[key]):
            found = resolve(self._targets[key])
            if not isinstance(found, Address):
                parts = key.split(".")
                self._watch(key, *(".".join(parts[:count]) for count in range(1, len(parts))))
                self._fail(key, found.why, found.nearest)
                return None
            address = self._addresses[key] = found
        self._watch(key, address.module)
        module = loaded(address.module)
        if module is None:
            self._check_source(key, address)
        elif (
            executed != address.module and is_running(module) and when_finished(module, self._module_executed)
        ):
            self._pend(key, "its module is still being imported")
        else:
            return module
        return None

    def _check_source(self, key: str, address: Address) -> None:
        from sglang_platform.core.hooks import existence

        verdict = existence.check(address)
        if verdict.answer == "missing":
            self._fail(key, verdict.why, verdict.nearest)
        else:
            self._pend(key, f"this process has not imported {address.module}")

    def _settle_in(self, module: ModuleType, key: str) -> None:
        from sglang_platform.core.hooks.patching.place import Absent, Deferred

        problem = self._sites.settle(key, self._addresses[key], module)
        if isinstance(problem, Absent):
            self._fail(key, problem.why, problem.nearest)
        elif isinstance(problem, Deferred):
            self._await_name(module, problem.name)
            self._pend(key, f"{module.__name__} makes {problem.name!r} on first use")

    def _module_executed(self, module: ModuleType, name: str) -> None:
        """The finder's news: the module has just run. A required target that it lacks fails its import."""
        with self._lock:
            keys = sorted(self._watched.get(name, ()))
            self._sites.module_ran_again(module)
            self._settle(keys, name)
            try:
                raise_failures([one for key in keys for one in self._hooks[key]])
            except HookError as error:
                for key in keys:
                    self._sites.leave(key)
                    for one in self._hooks[key]:
                        if one.state == "applied":
                            one.pend("its module failed to import")
                self._sites.bring_along()
                self._tell()
                raise self.late_error(error) from error.__cause__

    def _await_name(self, module: ModuleType, name: str) -> None:
        from sglang_platform.core.hooks.patching.lazy_names import LazyNames

        known = self._lazy.get(module.__name__)
        if known is not None and known.is_installed:
            known.wanted.add(name)
        else:
            self._lazy[module.__name__] = LazyNames(module, name, self._name_made)

    def _name_made(self, module: str, name: str) -> None:
        """A module's `__getattr__` has just made a hooked name; its first user waits for it."""
        with self._lock:
            keys = [key for key, at in self._addresses.items() if at.module == module and at.path[0] == name]
            self._settle(keys)
            try:
                raise_failures([one for key in keys for one in self._hooks[key]])
            except HookError as error:
                raise self.late_error(error) from error.__cause__

    def _watch(self, key: str, *modules: str) -> None:
        for module in modules:
            self._watched.setdefault(module, set()).add(key)

    def _pend(self, key: str, why: str) -> None:
        for one in self._hooks[key]:
            one.pend(why)

    def _fail(self, key: str, why: str, nearest: Iterable[str]) -> None:
        names = ", ".join(dict.fromkeys(nearest))
        for one in self._hooks[key]:
            one.fail(HookTargetError, f"{why}; nearest: {names}" if names else why)
            warn_of_failure(one, one.spelling)

    def _forget(self, key: str) -> None:
        address = self._addresses.pop(key, None)
        for keys in self._watched.values():
            keys.discard(key)
        for module in [module for module, keys in self._watched.items() if not keys]:
            del self._watched[module]
        del self._hooks[key], self._targets[key]
        lazy = self._lazy.get(address.module) if address is not None else None
        if address is not None and lazy is not None:
            lazy.wanted.discard(address.path[0])
            if not lazy.wanted:
                lazy.remove()
                del self._lazy[address.module]
