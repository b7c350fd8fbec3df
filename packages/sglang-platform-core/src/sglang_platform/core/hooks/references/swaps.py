"""Replaces one object by another in slots of every kind, and undoes it."""

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
    """One readable and writable reference in a holder, e.g. a dict value. `name` is for the report."""

    name: str
    get: Callable[[], object]
    put: Callable[[Any], None]


class Swap:
    """A request to replace all other references to `old` by `new`, with its outcome.

    Args:
        known: number of references to `old` that its site holds.
        kept: modules that keep `old` on purpose: the module that defines a replacement may call the original.
        name: if given, only module attributes of that name are changed.

    Afterwards `edits` are the slots that were changed, and `unreached` names the holders that were not.
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
    """A slot that a swap has changed. It reaches the old object through its swap, which holds the only reference."""

    slot: Slot
    swap: Swap

    def undo(self) -> None:
        """Restore the old object, unless other code has changed the slot since."""
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
    """The function of a partial. It can only be changed through the pickle protocol."""

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
    """Rebase the subclasses of a replaced class on its replacement, if that is a subclass of the replaced class."""
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
