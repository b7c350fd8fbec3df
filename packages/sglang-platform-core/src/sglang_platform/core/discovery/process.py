"""The state behind `current_platform`: what this process chose, decided and built, under one lock."""

from __future__ import annotations

import copy
import re
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import asked_plugin
from sglang_platform.core.discovery.failures import explain, plugin_failed
from sglang_platform.core.discovery.kind import SRT, PlatformKind
from sglang_platform.core.discovery.resolve import Choice, Decision, choose, give_up, load_choice
from sglang_platform.core.discovery.trace import Trace, first_caller_outside
from sglang_platform.core.errors import (
    HostError,
    PlatformError,
    PluginFailed,
    PluginOrigin,
    ReentrantResolution,
)
from sglang_platform.core.hosts import HostAdapter

__all__ = ["Process", "host_attribute"]


def host_attribute(plugin_name: str) -> str:
    """An entry-point name as a Python identifier: the attribute under which the host finds the re-based class."""
    name = re.sub(r"\W", "_", plugin_name)
    return f"_{name}" if name[:1].isdigit() else name


class Process:
    """The steps from nothing to a platform: `choose`, `decide`, `platform_type`, `turn`; each made once.

    A step that failed fails again with the same error. A thread that comes back to a step while it is inside it
    gets ReentrantResolution; other threads wait.
    """

    def __init__(self, platform: Any, unresolved: type, kind: PlatformKind = SRT) -> None:
        self.platform = platform
        self.kind = kind
        self.turned = False
        self.trace: Trace | None = None
        self.decision: Decision | None = None
        self._unresolved = unresolved
        self._lock = threading.RLock()
        self._busy = False
        self._choice: Choice | None = None
        self._error: PlatformError | None = None
        self._built: tuple[type, dict[str, Any]] | None = None
        self._stand_in: type | None = None

    def choose(self) -> Choice:
        """Which plugin is active; its class is not imported."""
        with self._lock:
            if self._choice is None:
                with self._step():
                    self._choose()
            assert self._choice is not None
            return self._choice

    def decide(self) -> Decision:
        """Which class is the platform's; it is not instantiated."""
        with self._lock:
            if self.decision is None:
                with self._step():
                    self._decide()
            assert self.decision is not None
            return self.decision

    def platform_type(self) -> type:
        """The class that the platform object has, or will have at its next touch."""
        with self._lock:
            if self.turned:
                return type(self.platform)
            return self._build()[0]

    def stand_in(self) -> type:
        """A class that is the platform's to every `issubclass`, and not the same object."""
        with self._lock:
            cls = type(self.platform)
            if self._stand_in is None or self._stand_in.__base__ is not cls:
                namespace = {
                    "__module__": cls.__module__,
                    "__qualname__": cls.__qualname__,
                    "_rebased_by_host": True,
                }
                self._stand_in = types.new_class(
                    cls.__name__, (cls,), {}, lambda body: body.update(namespace)
                )
            return self._stand_in

    def shares_state(self, other: object) -> bool:
        """Whether `other` has the very state that the platform object has, or will have."""
        with self._lock:
            return self._built is not None and getattr(other, "__dict__", None) is self._built[1]

    def turn(self) -> None:
        """Make the object the platform. Its state is complete before its class changes."""
        with self._lock:
            if not self.turned:
                self._take(*self._build())

    def adopt(self, cls: type) -> object:
        """See `current.adopt`."""
        with self._lock:
            held = self.platform_type() if self.turned or self._built else self.decide().platform_class
            if held is None or not issubclass(cls, held):
                raise HostError(
                    f"the host instantiates {cls.__module__}.{cls.__qualname__} as its platform",
                    plugin=self.decision.origin if self.decision else None,
                    why="this process decided on "
                    + (f"{held.__module__}.{held.__qualname__}" if held else "no platform plugin"),
                    fix="see `sglang-platform list --explain`; do not instantiate platform classes by hand",
                )
            if self.turned:
                object.__setattr__(self.platform, "__class__", cls)
            elif self._built:
                self._take(cls, self._built[1])
            else:
                with self._step():
                    self._take(cls, self._instantiate(cls, self.decide().origin))
            return self.platform

    def follow_host(self) -> None:
        """See `current.follow_host`."""
        with self._lock:
            host = self.kind.host()
            if (
                host is not None
                and self.turned
                and self.decision is not None
                and self.decision.origin is None
            ):
                self._take(*self._share(self._own_platform(host)))

    def host_platform_class(self, name: str) -> type:
        """See `current.host_platform_class`."""
        decision = self.decide()
        host = self.kind.host()
        if (
            host is None
            or decision.origin is None
            or decision.platform_class is None
            or host_attribute(decision.origin.name) != name
        ):
            raise AttributeError(f"{name!r} is not the active platform plugin ({decision.trace.outcome})")
        return self._rebase(host, decision.platform_class, decision.origin)

    def describe(self) -> str:
        """The state in a few words, for `repr`."""
        if self._error is not None:
            return f"refused: {self._error.what}"
        if self._built is not None:
            return f"{self._built[0].__qualname__}, not touched yet"
        return "being resolved" if self._busy else "not resolved yet"

    def reset(self) -> None:
        """See `current.reset`."""
        with self._lock:
            object.__setattr__(self.platform, "__class__", self._unresolved)
            object.__setattr__(self.platform, "__dict__", {})
            self.turned = self._busy = False
            self.trace = self.decision = self._choice = None
            self._error = self._built = self._stand_in = None
            scan.invalidate()

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Around work that runs foreign code. Remembers its error, refuses to be entered from inside."""
        if self._error is not None:
            again = copy.copy(self._error)
            raise again from self._error.__cause__
        if self._busy:
            raise self._reentrant()
        self._busy = True
        try:
            yield
        except PlatformError as error:
            self._error = error
            if self.trace is not None:
                self.trace.refused(error)
            raise
        finally:
            self._busy = False

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

    def _choose(self) -> Choice:
        if self._choice is None:
            self.trace = Trace(self.kind.group, triggered_by=first_caller_outside())
            self._choice = choose(self.kind, self.trace)
        return self._choice

    def _decide(self) -> Decision:
        if self.decision is None:
            choice = self._choose()
            self.decision = load_choice(choice, self.kind)
            self._follow(choice)
        return self.decision

    def _follow(self, choice: Choice) -> None:
        """Where the decision went on without the chosen plugin, the choice did too."""
        if choice.origin is not None and self.decision is not None and self.decision.origin is None:
            self._choice = Choice(None, None, True, choice.trace)

    def _build(self) -> tuple[type, dict[str, Any]]:
        if self._built is None:
            with self._step():
                decision = self._decide()
                try:
                    self._built = self._build_for(decision)
                except PlatformError as error:
                    choice = self._choose()
                    if choice.origin is None:
                        raise
                    self.decision = give_up(choice, error)
                    self._follow(choice)
                    self._built = self._build_for(self.decision)
        return self._built

    def _build_for(self, decision: Decision) -> tuple[type, dict[str, Any]]:
        host = self.kind.host()
        origin, platform_class = decision.origin, decision.platform_class
        if platform_class is None or origin is None:
            if host is not None:
                return self._share(self._own_platform(host))
            base = self.kind.core_base()
            return base, self._instantiate(base, None)
        if host is None:
            return platform_class, self._instantiate(platform_class, origin)
        if issubclass(platform_class, host.platform_base()):
            # Written on the host's classes: unless it holds ours, it makes its own object, and we share it.
            theirs = self._own_platform(host)
            if theirs is self.platform:  # the adapter gave the host our object before it resolved
                return platform_class, self._instantiate(platform_class, origin)
            if type(theirs) is not platform_class:
                raise HostError(
                    f"the host chose {type(theirs).__module__}.{type(theirs).__qualname__}, the installed plugins "
                    f"call for {platform_class.__module__}.{platform_class.__qualname__}",
                    plugin=origin,
                    why="the host resolved by other rules, or swallowed this plugin's failure",
                    fix=f"set {self.kind.variable}={origin.name} and see `sglang-platform list --explain`",
                )
            return self._share(theirs)
        rebased = self._rebase(host, platform_class, origin)
        return rebased, self._instantiate(rebased, origin)

    def _own_platform(self, host: HostAdapter) -> Any:
        try:
            return host.own_platform()
        except PlatformError:
            raise
        except Exception as error:
            raise HostError(
                f"{host.name} {host.version} could not resolve its own platform",
                why=explain(error),
                fix="see the host's own message; the installed plugins: `sglang-platform list`",
            ) from error

    def _share(self, theirs: Any) -> tuple[type, dict[str, Any]]:
        self._check_layout(type(theirs), None)
        return type(theirs), vars(theirs)

    def _rebase(self, host: HostAdapter, platform_class: type, origin: PluginOrigin) -> type:
        try:
            return host.rebase_platform(platform_class, origin)
        except PlatformError:
            raise
        except Exception as error:
            raise plugin_failed(
                f"the platform class of plugin {origin.name!r} cannot be put on {host.name} {host.version}",
                origin,
                error,
                fix=f"see which base classes {platform_class.__qualname__} mixes",
            ) from error

    def _instantiate(self, cls: type, origin: PluginOrigin | None) -> dict[str, Any]:
        """The state of a fresh instance.

        Built on a twin, so that no thread ever sees the platform object half initialised. `type.__call__` goes
        around the metaclass of re-based classes, which gives out the platform object itself.
        """
        self._check_layout(cls, origin)
        try:
            return vars(type.__call__(cls))  # type: ignore[no-any-return]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            origin = origin or PluginOrigin(cls.__qualname__)
            what = f"the platform {cls.__module__}.{cls.__qualname__} could not be instantiated"
            raise plugin_failed(
                what, origin, error, fix="its __init__ takes no arguments and must not raise"
            ) from error

    def _check_layout(self, cls: type, origin: PluginOrigin | None) -> None:
        try:
            object.__setattr__(object.__new__(self._unresolved), "__class__", cls)
        except TypeError as error:
            raise PluginFailed(
                f"{cls.__module__}.{cls.__qualname__} cannot be the platform's class",
                plugin=origin,
                why=str(error),
                fix="derive it from plain Python classes: no __slots__, no extension type among its bases",
            ) from error

    def _take(self, cls: type, state: dict[str, Any]) -> None:
        object.__setattr__(self.platform, "__dict__", state)
        self._built = (cls, state)
        self.turned = True  # before the class: see _Unresolved.__getattribute__
        object.__setattr__(self.platform, "__class__", cls)
