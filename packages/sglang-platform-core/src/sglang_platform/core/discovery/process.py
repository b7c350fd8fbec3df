"""The state behind `current_platform`: what this process chose, decided and built, under one lock."""

from __future__ import annotations

import copy
import os
import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import Answer, ask, asked_plugin
from sglang_platform.core.discovery.host_first import with_host_first
from sglang_platform.core.discovery.instance import (
    PlatformInstance,
    instance_for,
    instantiate,
    shared_with_host,
)
from sglang_platform.core.discovery.kind import SRT, PlatformKind
from sglang_platform.core.discovery.resolve import Decision, PlatformChoice, choose, give_up, load_choice
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.trace import Trace, first_caller_outside
from sglang_platform.core.errors import HostError, PlatformError, ReentrantResolution

__all__ = ["Process", "host_attribute"]

T = TypeVar("T")


def host_attribute(plugin_name: str) -> str:
    """An entry-point name as a Python identifier: the attribute under which the host finds the re-based class."""
    name = re.sub(r"\W", "_", plugin_name)
    return f"_{name}" if name[:1].isdigit() else name


class Process:
    """Resolves one kind of platform in three steps: choose a plugin, decide on a class, build an instance.

    Each step runs once, after the previous one. A failed step raises the same error again. A thread that requests a
    step from within a step gets ReentrantResolution; other threads wait.
    """

    def __init__(self, platform: Any, unresolved: type, kind: PlatformKind = SRT) -> None:
        self.platform = platform
        """The lazy object."""
        self.kind = kind
        self.turned = False
        """Whether the lazy object has become the platform."""
        self.ask: Callable[[EntryPointRecord], Answer] = ask
        """How a plugin is asked."""
        self.trace: Trace | None = None
        self.decision: Decision | None = None
        self._unresolved = unresolved
        self._lock = threading.RLock()
        self._in_step = False
        self._choice: PlatformChoice | None = None
        self._instance: PlatformInstance | None = None
        self._error: PlatformError | None = None
        os.register_at_fork(after_in_child=self._without_other_threads)

    def _without_other_threads(self) -> None:
        # In a forked child: a step that another thread of the parent was running is lost, and starts again.
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock, self._in_step = threading.RLock(), False

    def choose(self) -> PlatformChoice:
        """The active plugin. Its class is not imported."""
        with self._lock:
            return self._choice or self._step(self._choose)

    def decide(self) -> Decision:
        """The platform class, not instantiated. Raises a PlatformError if the rules refuse."""
        with self._lock:
            return self.decision or self._step(self._decide)

    def turn(self) -> None:
        """Turn the lazy object into the platform, in place."""
        with self._lock:
            if not self.turned:
                self._become(self._build())

    def platform_type(self) -> type:
        """The class that the lazy object has, or will have at its next access."""
        with self._lock:
            return type(self.platform) if self.turned else self._build().platform_class

    def reset(self) -> None:
        """Clear all state and the metadata scan. For tests: references to the old platform become stale."""
        with self._lock:
            object.__setattr__(self.platform, "__class__", self._unresolved)
            object.__setattr__(self.platform, "__dict__", {})
            self.turned = self._in_step = False
            self.trace = self.decision = self._choice = None
            self._instance = self._error = None
            scan.invalidate()

    def learn(self, choice: PlatformChoice | None, trace: Trace, error: PlatformError | None) -> None:
        """Take over what another process decided, so that no plugin is asked in this one."""
        with self._lock:
            self._choice, self.trace, self._error = choice, trace, error

    def adopt(self, cls: type) -> object:
        """Make the lazy object an instance of `cls`, the re-based class that the host instantiates; returns it.

        If the process resolved before the host was loaded, the object changes its class and keeps its state.
        Raises HostError if `cls` is not a subclass of the platform class that this process decided on.
        """
        with self._lock:
            held = self._instance.platform_class if self._instance else self.decide().platform_class
            if held is None or not issubclass(cls, held):
                raise HostError(
                    f"the host instantiates {cls.__module__}.{cls.__qualname__} as its platform",
                    plugin=self.decision.origin if self.decision else None,
                    why="this process decided on "
                    + (f"{held.__module__}.{held.__qualname__}" if held else "no platform plugin"),
                    fix="see `sglang-platform list --explain`; do not instantiate platform classes by hand",
                )
            instance = self._instance or self._step(lambda: instantiate(cls, self.decide().origin))
            self._become(PlatformInstance(cls, instance.state))
            return self.platform

    def follow_host(self) -> None:
        """Take over the host's own platform if no plugin is active and the host was loaded after resolution.

        Otherwise does nothing.
        """
        with self._lock:
            host = self.kind.host.adapter()
            no_plugin = self.decision is not None and self.decision.origin is None
            if host is not None and self.turned and no_plugin:
                self._become(shared_with_host(host))

    def is_platform(self, other: object) -> bool:
        """Whether `other` is the lazy object, or the host's own object whose class and state it took over."""
        with self._lock:
            if other is self.platform:
                return True
            return self._instance is not None and getattr(other, "__dict__", None) is self._instance.state

    def describe(self) -> str:
        """The state in a few words, for `repr`."""
        if self._error is not None:
            return f"refused: {self._error.what}"
        if self._instance is not None:
            return f"{self._instance.platform_class.__qualname__}, not touched yet"
        return "being resolved" if self._in_step else "not resolved yet"

    def _step(self, make: Callable[[], T]) -> T:
        """Run `make`, which runs plugin code. Remembers its error; refuses re-entrant calls."""
        if self._error is not None:
            raise copy.copy(self._error) from self._error.__cause__
        if self._in_step:
            raise self._reentrant()
        try:
            return with_host_first(
                self.kind, lambda: self._attempt(make), lambda: self._choice and self._choice.origin
            )
        except PlatformError as error:
            self._error = error
            if self.trace is not None:
                self.trace.refused(error)
            raise

    def _attempt(self, make: Callable[[], T]) -> T:
        self._in_step = True
        try:
            return make()
        finally:
            self._in_step = False

    def _choose(self) -> PlatformChoice:
        if self._choice is None:
            self.trace = Trace(self.kind.group, triggered_by=first_caller_outside())
            self._choice = choose(self.kind, self.trace, self.ask)
        return self._choice

    def _decide(self) -> Decision:
        return self.decision or self._settle(load_choice(self._choose(), self.kind))

    def _settle(self, decision: Decision) -> Decision:
        """Store a decision. If it falls back to no plugin, clear the chosen plugin as well."""
        self.decision = decision
        if decision.origin is None:
            self._choice = self._choose()._replace(origin=None, location=None)
        return decision

    def _build(self) -> PlatformInstance:
        if self._instance is None:
            self._instance = self._step(self._instance_or_fall_back)
        return self._instance

    def _instance_or_fall_back(self) -> PlatformInstance:
        if self._instance is not None:  # built meanwhile, for the host that was imported
            return self._instance
        decision = self._decide()
        try:
            return instance_for(decision, self.kind, self.platform)
        except PlatformError as error:
            if decision.origin is None:
                raise
            without = self._settle(give_up(self._choose(), error))  # raises if fallback is not allowed
            return instance_for(without, self.kind, self.platform)

    def _become(self, instance: PlatformInstance) -> None:
        """Turn the lazy object. Its state is complete before its class changes."""
        self._instance = instance
        object.__setattr__(self.platform, "__dict__", instance.state)
        self.turned = True  # before the class: see _Unresolved.__getattribute__
        object.__setattr__(self.platform, "__class__", instance.platform_class)

    def _reentrant(self) -> ReentrantResolution:
        plugin = asked_plugin()
        if plugin is None and self._choice is not None:
            plugin = self._choice.origin
        first = self.trace.triggered_by if self.trace else None
        return ReentrantResolution(
            "the current platform was touched while it is being resolved",
            plugin=plugin,
            why=f"touched at {first_caller_outside()}, inside the resolution that {first} began: a plugin needs "
            "the platform in order to give it",
            fix="use the platform later, in a function that runs after start-up: not while the plugin's modules "
            "are imported, not in activate(), not in the platform's __init__",
        )
