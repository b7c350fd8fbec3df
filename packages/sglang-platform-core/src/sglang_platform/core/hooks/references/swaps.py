"""Putting one object where another stood, in places of every kind that can be read and set, and undoing it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "Edit",
    "Slot",
    "Swap",
    "in_class",
    "in_defaults",
    "in_list",
    "in_mapping",
    "in_partial",
    "in_set",
    "rebase_subclasses",
]


class Slot(NamedTuple):
    """A place with a name that can be read and set."""

    name: str
    get: Callable[[], object]
    put: Callable[[Any], None]


class Swap:
    """Put `new` wherever `old` stands.

    `kept` names modules that hold `old` on purpose: the one that defines a replacement may call the original. `known`
    is the number of references to `old` that its site holds itself. With `name`, only bindings of that name change.
    """

    __slots__ = ("edits", "kept", "known", "name", "new", "old", "unreached")

    def __init__(
        self,
        old: object,
        new: object,
        known: int = 0,
        kept: frozenset[str] = frozenset(),
        name: str | None = None,
    ) -> None:
        self.old, self.new, self.known, self.kept, self.name = old, new, known, kept, name
        self.edits: list[Edit] = []
        self.unreached: list[str] = []

    def change(self, slot: Slot) -> None:
        try:
            slot.put(self.new)
        except (AttributeError, TypeError) as error:
            self.unreached.append(f"{slot.name} ({error})")
        else:
            self.edits.append(Edit(slot, self))


class Edit(NamedTuple):
    """A slot that a swap has changed."""

    slot: Slot
    swap: Swap

    def undo(self) -> None:
        """Put the old object back, unless somebody has put another one there since."""
        if self.slot.get() is self.swap.new:
            self.slot.put(self.swap.old)


def in_mapping(name: str, mapping: dict[Any, Any], key: object) -> Slot:
    return Slot(name, lambda: mapping.get(key), lambda value: mapping.__setitem__(key, value))


def in_class(name: str, klass: type, attribute: str) -> Slot:
    return Slot(name, lambda: vars(klass).get(attribute), lambda value: setattr(klass, attribute, value))


def in_list(name: str, items: Any, index: int) -> Slot:
    return Slot(
        name,
        lambda: items[index] if index < len(items) else None,
        lambda value: items.__setitem__(index, value),
    )


def in_set(name: str, members: set[Any], swap: Swap) -> Slot:
    def put(value: object) -> None:
        members.discard(swap.old if value is swap.new else swap.new)
        members.add(value)

    return Slot(name, lambda: swap.new if swap.new in members else swap.old, put)


def in_defaults(name: str, function: types.FunctionType, index: int) -> Slot:
    def put(value: object) -> None:
        defaults = function.__defaults__ or ()
        function.__defaults__ = (*defaults[:index], value, *defaults[index + 1 :])

    return Slot(name, lambda: (function.__defaults__ or (None,) * (index + 1))[index], put)


def in_partial(name: str, partial: Any, index: int) -> Slot:
    """`index` 0 is the function, the others its bound arguments. The pickle protocol is the way to change them."""

    def put(value: object) -> None:
        parts = [partial.func, *partial.args]
        parts[index] = value
        state = (parts[0], tuple(parts[1:]), partial.keywords, vars(partial))
        partial.__setstate__(state)

    return Slot(name, lambda: (partial.func, *partial.args)[index], put)


def rebase_subclasses(swap: Swap) -> None:
    """Put a replaced class's subclasses on its replacement, where that is a subclass of it too."""
    old: type[Any] = swap.old  # type: ignore[assignment]
    new: type[Any] = swap.new  # type: ignore[assignment]
    for klass in type.__subclasses__(old):
        if klass in new.__mro__:
            continue
        name = f"{klass.__module__}.{klass.__qualname__}"
        if klass.__module__ in swap.kept:
            swap.unreached.append(f"subclass {name} (kept: its module defines the replacement)")
        elif not issubclass(new, old):
            swap.unreached.append(f"subclass {name} (its base is not a base of the replacement)")
        else:
            index = klass.__bases__.index(old)
            swap.change(_in_bases(f"subclass {name}", klass, index))


def _in_bases(name: str, klass: type, index: int) -> Slot:
    def put(value: type) -> None:
        klass.__bases__ = (*klass.__bases__[:index], value, *klass.__bases__[index + 1 :])

    return Slot(name, lambda: klass.__bases__[index], put)
