"""A registry: parts under stable ids, in an order independent of registration order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sglang_platform.core.errors import LaunchRefused, PlatformError, PluginOrigin, explain
from sglang_platform.core.hooks.registry import current_source, with_source_of_now
from sglang_platform.core.spelling import shown

__all__ = ["Entry", "Registry", "RegistryError", "registries", "withdraw"]

T = TypeVar("T")


class RegistryError(PlatformError):
    """A registry cannot serve a request or take a registration."""


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered part."""

    id: str
    part: T
    priority: int
    origin: PluginOrigin | None


class Registry(Generic[T]):
    """Parts of one sort, by id. Each instance is listed by `registries()` and has its rows in the process report.

    Safe under threads; iteration sees a snapshot, lowest priority first, then by id.

    Registering an id again with an equal part does nothing; with another part it is an error that names both plugins.
    """

    def __init__(self, name: str, noun: str, changed: Callable[[], None] = lambda: None) -> None:
        """
        Args:
            name: the key in the process report, e.g. ``quant_wrappers``.
            noun: one part in words, for messages, e.g. ``quant wrapper``.
            changed: called after each change, before the callbacks that wait for the first entry.
        """
        self.name, self.noun, self._changed = name, noun, changed
        self._lock = threading.Lock()
        self._by_id: dict[str, Entry[T]] = {}
        self._ordered: tuple[Entry[T], ...] = ()
        self._waiting: list[Callable[[], None]] = []
        _registries.append(self)

    def add(self, id: str, part: T, priority: int = 0) -> None:
        """Register a part. Raises RegistryError if `id` is not a non-empty str, or another part has it."""
        if not isinstance(id, str) or not id.strip():
            raise RegistryError(
                f"a {self.noun} needs a non-empty str as its id, not {shown(id)}",
                fix="register it under a name",
            )
        entry = Entry(id, part, priority, current_source())
        with self._lock:
            held = self._by_id.get(id)
            if held is not None:
                if held.part == part and held.priority == priority:
                    return
                raise RegistryError(
                    f"two {self.noun}s are registered as {id!r}",
                    plugin=entry.origin,
                    why=f"{held.origin or 'no plugin'} registered {shown(held.part)} with priority {held.priority}",
                    fix="give each its own id",
                )
            self._keep({**self._by_id, id: entry})
            waiting, self._waiting = self._waiting, []
        self._changed()
        for call in waiting:
            call()

    def withdraw(self, origin: PluginOrigin) -> None:
        """Forget the parts of a plugin."""
        with self._lock:
            self._keep({id: one for id, one in self._by_id.items() if one.origin != origin})
        self._changed()

    def call(self, entry: Entry[T], name: str, part: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function of the part and return its result. Raises RegistryError, from its cause, if it raises."""
        try:
            return part(*args, **options)
        except (PlatformError, LaunchRefused, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise RegistryError(
                f"the {name} of {self.noun} {entry.id!r} failed",
                plugin=entry.origin,
                why=explain(error),
                fix="correct it and install what it needs, or leave its plugin out",
            ) from error

    def get(self, id: str) -> Entry[T] | None:
        return self._by_id.get(id)

    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(self._by_id))

    def when_first_added(self, call: Callable[[], None]) -> None:
        """Call `call()` once: now if there is an entry, else when the first one is added. Hooks that it registers are
        attributed to the calling plugin, not to the plugin that adds the entry."""
        with self._lock:
            if not self._by_id:
                self._waiting.append(with_source_of_now(call))
                return
        call()

    def clear(self) -> None:
        """Forget all parts, and the calls that wait for the first. For tests."""
        with self._lock:
            self._keep({})
            self._waiting.clear()
        self._changed()

    def _keep(self, entries: dict[str, Entry[T]]) -> None:
        self._by_id = entries
        self._ordered = tuple(sorted(entries.values(), key=lambda one: (one.priority, one.id)))

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._ordered)

    def __len__(self) -> int:
        return len(self._ordered)

    def describe(self) -> list[dict[str, Any]]:
        """JSON-able: id, priority and plugin of each, in order."""
        return [
            {"id": one.id, "priority": one.priority, "plugin": str(one.origin) if one.origin else None}
            for one in self
        ]


_registries: list[Registry[Any]] = []


def registries() -> tuple[Registry[Any], ...]:
    """Every registry whose module this process has imported."""
    return tuple(_registries)


def withdraw(origin: PluginOrigin) -> None:
    """Remove all parts of a plugin whose loading failed half way."""
    for registry in _registries:
        registry.withdraw(origin)
