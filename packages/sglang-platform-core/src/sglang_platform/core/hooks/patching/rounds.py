"""Rounds: each one updates the attributes of its targets to match the hooks registered on them.

A round is triggered by `apply_hooks()`, by a later registration, and by the execution of a watched module. In a round a
target's hooks are

    applied   if its module is loaded: by a site
    pending   if its module is not loaded or is still running: it is watched, and its end triggers another round
    failed    if its module does not exist or lacks the target; a module that is not loaded is checked in its source
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import ModuleType

from sglang_platform.core.errors import HookTargetError
from sglang_platform.core.hooks import existence
from sglang_platform.core.hooks.patching.finder import OnExecuted, is_running, loaded, when_finished
from sglang_platform.core.hooks.patching.sites import Sites
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.hooks.report import fail
from sglang_platform.core.hooks.targets import parse, resolve
from sglang_platform.core.installed.address import Address

__all__ = ["Rounds"]


class Rounds:
    """The address of each target, by key, and the sites. The engine calls it under its lock.

    Args:
        hooks: the registrations by key, as the engine keeps them.
        watched: by name of each watched module, the keys that wait for it. Filled here, read by the finder.
        executed: called with a module and its name after a run whose start the finder did not see.
    """

    def __init__(
        self,
        hooks: Mapping[str, Sequence[Registration]],
        watched: dict[str, set[str]],
        executed: OnExecuted,
    ) -> None:
        self._hooks = hooks
        self._watched = watched
        self._executed = executed
        self._addresses: dict[str, Address] = {}
        self._sites = Sites(hooks)

    def settle(self, keys: Collection[str], executed: str | None = None) -> None:
        """Run one round for these keys; `executed` is the module that was just executed.

        If a class was replaced or restored, run another round for all methods: their hooks belong on the current class.
        """
        self._settle_each(keys, executed)
        while self._sites.bring_along():
            self._settle_each([key for key, at in self._addresses.items() if len(at.path) > 1], executed)
        existence.forget()

    def module_executed(self, module: ModuleType, name: str) -> list[str]:
        """Run the round after a module was executed; returns the keys that waited for it."""
        keys = sorted(self._watched.get(name, ()))
        self._sites.module_ran_again(module)
        self.settle(keys, name)
        return keys

    def take_back(self, keys: Iterable[str]) -> None:
        """Undo the round of a module whose import fails because of a hook."""
        for key in keys:
            self._sites.leave(key)
            for one in self._hooks[key]:
                if one.state == "applied":
                    one.pend("its module failed to import")
        self._sites.bring_along()

    def address(self, key: str) -> Address | None:
        """The target's module and path; None if not known yet."""
        return self._addresses.get(key)

    def forget(self, key: str) -> None:
        """Drop all records of a key that has no hooks any more."""
        for module, keys in list(self._watched.items()):
            keys.discard(key)
            if not keys:
                del self._watched[module]
        self._addresses.pop(key, None)

    def _settle_each(self, keys: Iterable[str], executed: str | None) -> None:
        for key in sorted(keys, key=self._rank):
            if self._hooks[key]:
                self._settle_one(key, executed)
            else:
                self._sites.leave(key)

    def _rank(self, key: str) -> tuple[bool, int, str]:
        """Sort key: replaced classes first, so that hooks on their methods are applied to the replacement."""
        replaces = any(isinstance(one.hook, type) for one in self._hooks[key])
        return (not replaces, key.count("."), key)

    def _settle_one(self, key: str, executed: str | None) -> None:
        address = self._address_of(key)
        module = self._module_of(key, address, executed) if address is not None else None
        if address is None or module is None:
            return
        problem = self._sites.settle(key, address, module)
        if problem is not None:
            self._missing(key, problem.why, problem.nearest)

    def _address_of(self, key: str) -> Address | None:
        """The target's module and path; retried if it was missing before, None if it still is."""
        address = self._addresses.get(key)
        if address is not None and not any(one.error is HookTargetError for one in self._hooks[key]):
            return address
        found = resolve(parse(self._hooks[key][-1].spelling))
        if isinstance(found, Address):
            self._addresses[key] = found
            return found
        parts = key.split(".")
        self._watch(key, *(".".join(parts[:count]) for count in range(1, len(parts))))
        self._missing(key, found.why, found.nearest)
        return None

    def _module_of(self, key: str, address: Address, executed: str | None) -> ModuleType | None:
        """The target's module if it has been executed; else None, with the hooks pending or failed."""
        self._watch(key, address.module)
        module = loaded(address.module)
        if module is None:
            self._check_source(key, address)
            return None
        runs = executed != address.module and is_running(module)
        if runs and when_finished(module, self._executed):
            self._pend(key, "its module is still being imported")
            return None
        return module

    def _check_source(self, key: str, address: Address) -> None:
        found = existence.missing(address)
        if found is not None:
            self._missing(key, found.why, found.nearest)
        else:
            self._pend(key, f"this process has not imported {address.module}")

    def _watch(self, key: str, *modules: str) -> None:
        for module in modules:
            self._watched.setdefault(module, set()).add(key)

    def _pend(self, key: str, why: str) -> None:
        for one in self._hooks[key]:
            one.pend(why)

    def _missing(self, key: str, why: str, nearest: Iterable[str]) -> None:
        names = ", ".join(dict.fromkeys(nearest))
        why = f"{why}; nearest: {names}" if names else why
        for one in self._hooks[key]:
            fail([one], HookTargetError, why, one.spelling)
