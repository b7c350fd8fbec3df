"""Putting one object where another stood, in slots of every kind, and undoing it."""

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
    "rebase_subclasses",
]


class Slot(NamedTuple):
    """One spot in a holder that can be read and set: a dict's value, a default argument. `name` is for the report."""

    name: str
    get: Callable[[], object]
    put: Callable[[Any], None]


class Swap:
    """An order to put `new` wherever else `old` is held, and what came of it.

    Args:
        known: how many references to `old` its site holds itself.
        kept: modules that hold `old` on purpose. The one that defines a replacement may call the original.
        name: where given, only module names of that name are changed.

    Carried out, `edits` are the slots that were changed, and `unreached` names the holders that were not.
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

    def keep(self, what: str) -> None:
        """Report a holder in a `kept` module."""
        self.unreached.append(f"{what} (kept: this module defines the replacement)")


class Edit(NamedTuple):
    """A slot that a swap has changed. It leads to the old object by way of its swap, which holds the only reference."""

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


def in_defaults(name: str, function: types.FunctionType, index: int) -> Slot:
    def put(value: object) -> None:
        function.__defaults__ = _with(function.__defaults__ or (), index, value)

    return Slot(name, lambda: (function.__defaults__ or (None,) * (index + 1))[index], put)


def in_partial(name: str, partial: Any) -> Slot:
    """The function of a partial. The pickle protocol is the way to change it."""

    def put(value: object) -> None:
        partial.__setstate__((value, partial.args, partial.keywords, vars(partial)))

    return Slot(name, lambda: partial.func, put)


def _in_bases(name: str, klass: type, index: int) -> Slot:
    def put(value: type) -> None:
        klass.__bases__ = _with(klass.__bases__, index, value)

    return Slot(name, lambda: klass.__bases__[index], put)


def _with(items: tuple[Any, ...], index: int, value: object) -> tuple[Any, ...]:
    return (*items[:index], value, *items[index + 1 :])


def rebase_subclasses(swap: Swap) -> None:
    """Put a replaced class's subclasses on its replacement, where that is a subclass of it too."""
    old: type[Any] = swap.old  # type: ignore[assignment]
    new: type[Any] = swap.new  # type: ignore[assignment]
    for klass in type.__subclasses__(old):
        if klass in new.__mro__:
            continue
        name = f"subclass {klass.__module__}.{klass.__qualname__}"
        if klass.__module__ in swap.kept:
            swap.unreached.append(f"{name} (kept: its module defines the replacement)")
        elif not issubclass(new, old):
            swap.unreached.append(f"{name} (its base is not a base of the replacement)")
        else:
            swap.change(_in_bases(name, klass, klass.__bases__.index(old)))
