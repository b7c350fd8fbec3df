"""Holders of a patched object other than module names: dicts and lists, defaults, partials, aliases, subclasses.

The heap is asked who refers to the object (`gc.get_referrers`), and then who refers to those holders, until they have
a name: a module, a class or a function. A mutable holder with a name is changed; of any other the name or kind is
reported. A holder without a name may be somebody's deliberate copy of the original, so it is left alone.
"""

from __future__ import annotations

import functools
import gc
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Edit", "Slot", "Swap", "in_mapping", "reach", "rebase_subclasses"]

_CLIMB = 3
_WIDEST = 64
"""How far, and over how many holders at once, names are looked for."""

_NO_HOLDERS = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_OF_THE_CLASS_ITSELF = (
    type,
    types.CellType,  # `__class__`, for super()
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.GenericAlias,
    types.UnionType,
)


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


def _in_class(name: str, klass: type, attribute: str) -> Slot:
    return Slot(name, lambda: vars(klass).get(attribute), lambda value: setattr(klass, attribute, value))


def _in_list(name: str, items: Any, old: object) -> Slot:
    index = next(i for i, item in enumerate(items) if item is old)
    return Slot(
        name,
        lambda: items[index] if index < len(items) else None,
        lambda value: items.__setitem__(index, value),
    )


def _in_set(name: str, members: set[Any], swap: Swap) -> Slot:
    def put(value: object) -> None:
        members.discard(swap.old if value is swap.new else swap.new)
        members.add(value)

    return Slot(name, lambda: swap.new if swap.new in members else swap.old, put)


def _in_defaults(name: str, function: types.FunctionType, index: int) -> Slot:
    def put(value: object) -> None:
        defaults = function.__defaults__ or ()
        function.__defaults__ = (*defaults[:index], value, *defaults[index + 1 :])

    return Slot(name, lambda: (function.__defaults__ or (None,) * (index + 1))[index], put)


def _in_partial(name: str, partial: Any, index: int) -> Slot:
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


def reach(
    swaps: Sequence[Swap], own: Iterable[object], namespaces: dict[int, tuple[str, dict[str, Any]]]
) -> None:
    """Change or report every holder of the old objects that the heap knows, except `own`."""
    olds = [swap.old for swap in swaps]
    heap = _Heap({id(one) for one in (*own, *swaps, swaps, olds)}, namespaces)
    holders = [one for one in heap.referrers(olds) if id(one) not in namespaces]
    heap.climb(holders)
    for swap in swaps:
        for holder in holders:
            if any(value is swap.old for value in gc.get_referents(holder)):
                _change_holder(swap, holder, heap)


def _change_holder(swap: Swap, holder: Any, heap: _Heap) -> None:
    is_class = isinstance(swap.old, type)
    if isinstance(holder, Swap) or (
        is_class and (isinstance(holder, _OF_THE_CLASS_ITSELF) or type(holder) is swap.old)
    ):
        return
    slots = list(heap.slots(holder, swap))
    for slot in slots:
        if slot.name.partition("[")[0].endswith(("__annotations__", "__wrapped__", "__mro__")):
            continue
        if any(slot.name.startswith(f"{module}.") for module in swap.kept):
            swap.unreached.append(f"{slot.name} (kept: this module defines the replacement)")
        else:
            swap.change(slot)
    if not slots:
        swap.unreached += heap.describe(holder, swap)


class _Heap:
    """Who refers to whom, as far as it was asked."""

    def __init__(self, ignored: set[int], namespaces: dict[int, tuple[str, dict[str, Any]]]) -> None:
        self._ignored = ignored
        self._alive: list[Any] = []  # our own lists and dicts: an id in `_ignored` must not be used again
        self._namespaces = namespaces
        self._parents: dict[int, list[Any]] = {}
        self._ignore(self, self.__dict__, namespaces, self._parents, self._alive, *namespaces.values())

    def _ignore(self, *ours: Any) -> None:
        self._alive += ours
        self._ignored.update(map(id, ours))

    def referrers(self, objects: list[Any]) -> list[Any]:
        found = [
            one
            for one in gc.get_referrers(*objects)
            if id(one) not in self._ignored and not isinstance(one, _NO_HOLDERS)
        ]
        self._ignore(objects, found)
        return found

    def climb(self, level: list[Any]) -> None:
        for _ in range(_CLIMB):
            children = {id(one): one for one in level if not _names_itself(one)}
            level = list(children.values())[:_WIDEST]
            if not level:
                return
            self._ignore(children, level)
            above = self.referrers(level)
            seen = set(self._parents)
            for parent in above:
                for child in gc.get_referents(parent):
                    if id(child) in children:
                        parents = self._parents.setdefault(id(child), [])
                        self._ignore(parents)
                        if all(parent is not one for one in parents):
                            parents.append(parent)
            level = [one for one in above if id(one) not in self._namespaces and id(one) not in seen]

    def name(self, thing: Any, depth: int = _CLIMB) -> str | None:
        """A dotted name for a holder, by way of what holds it."""
        namespace = self._namespaces.get(id(thing))
        if namespace is not None:
            return namespace[0]
        if _names_itself(thing):
            return f"{thing.__module__}.{thing.__qualname__}"
        for parent in self._parents.get(id(thing), ()) if depth else ():
            above = self.name(parent, depth - 1)
            if above is not None:
                return above + self._step(parent, thing)
        return None

    def slots(self, holder: Any, swap: Swap) -> Iterator[Slot]:
        """The changeable places of `holder` that contain the old object, if the holder has a name."""
        old = swap.old
        if isinstance(holder, tuple):
            for parent in self._parents.get(id(holder), ()):
                if isinstance(parent, types.FunctionType) and parent.__defaults__ is holder:
                    name = f"{self.name(parent)} (a default argument)"
                    yield from (_in_defaults(name, parent, i) for i, one in enumerate(holder) if one is old)
                elif isinstance(parent, functools.partial) and self.name(parent) is not None:
                    name = f"{self.name(parent)} (an argument of a partial)"
                    yield from (_in_partial(name, parent, i + 1) for i, v in enumerate(holder) if v is old)
            return
        name_ = self.name(holder)
        if name_ is None:
            return
        if isinstance(holder, dict):
            klass = next((one for one in self._parents.get(id(holder), ()) if isinstance(one, type)), None)
            for key in [key for key, value in list(holder.items()) if value is old]:
                step = name_ + self._step(holder, old, key)
                yield _in_class(step, klass, key) if klass is not None else in_mapping(step, holder, key)
        elif isinstance(holder, list | deque):
            yield _in_list(name_ + "[...]", holder, old)
        elif isinstance(holder, set):
            yield _in_set(name_ + " (a set)", holder, swap)
        elif isinstance(holder, functools.partial) and holder.func is old:
            yield _in_partial(f"{name_} (a partial)", holder, 0)
        elif not isinstance(holder, type):
            for key in [key for key, value in _attributes(holder).items() if value is old]:
                yield in_mapping(f"{name_}.{key}", _attributes(holder), key)

    def describe(self, holder: Any, swap: Swap) -> list[str]:
        """The holder in words, for the report; nothing where it does not use what it holds."""
        name = self.name(holder)
        if isinstance(holder, types.CellType):
            return [f"{name or 'a function'} (a closure)"]
        if isinstance(holder, types.MethodType):
            return [f"{name or 'somewhere'} (a bound method of a {type(holder.__self__).__name__} object)"]
        if isinstance(holder, tuple) and isinstance(swap.old, type):
            above = [one for one in self._parents.get(id(holder), ()) if isinstance(one, type)]
            if name is None or any(holder is one.__mro__ or holder is one.__bases__ for one in above):
                return []
        if isinstance(holder, dict) and any(key is swap.old for key in holder):
            return [f"{name or 'a dict'} (as a key)"]
        return [
            f"{name} (a {type(holder).__name__})" if name else f"a {type(holder).__name__} without a name"
        ]

    def _step(self, parent: Any, child: Any, key: Any = None) -> str:
        """How `child` is reached from `parent`, as it would be written."""
        if isinstance(parent, dict):
            if key is None:
                key = next((k for k, value in list(parent.items()) if value is child), None)
            holders = self._parents.get(id(parent), ())
            plain = id(parent) not in self._namespaces and not any(
                isinstance(one, type) or _attributes(one) is parent for one in holders
            )
            return f"[{key!r}]" if plain else f".{key}"
        if isinstance(parent, list | tuple):
            return f"[{next((i for i, value in enumerate(parent) if value is child), '...')}]"
        attributes = _attributes(parent)
        return next((f".{name}" for name, value in attributes.items() if value is child), "")


def _names_itself(thing: object) -> bool:
    return isinstance(thing, type | types.FunctionType)


def _attributes(thing: object) -> dict[str, Any]:
    """The instance dict of an object, empty where it has none; runs none of its code."""
    if isinstance(thing, type | types.ModuleType):
        return {}
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}
