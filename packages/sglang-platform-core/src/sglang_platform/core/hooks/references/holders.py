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
from collections.abc import Iterator, Sequence
from typing import Any

from sglang_platform.core.hooks.references.swaps import (
    Slot,
    Swap,
    in_class,
    in_defaults,
    in_list,
    in_mapping,
    in_partial,
    in_set,
)

__all__ = ["reach"]

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


def reach(
    swaps: Sequence[Swap], own: list[object], namespaces: dict[int, tuple[str, dict[str, Any]]]
) -> None:
    """Change or report every holder of the old objects that the heap knows, except `own`."""
    olds = [swap.old for swap in swaps]
    heap = _Heap({id(one) for one in (*own, own, *swaps, swaps, olds)}, namespaces)
    holders = [one for one in heap.referrers(olds) if id(one) not in namespaces]
    # Asked for before the climb: looking at an object's attributes moves them into a dict.
    held = [{id(value) for value in gc.get_referents(holder)} for holder in holders]
    heap.climb(holders)
    for swap in swaps:
        for holder, values in zip(holders, held, strict=True):
            if id(swap.old) in values:
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
        self._names: dict[int, str] = {}
        self._things: dict[int, Any] = {}
        own = (self, self.__dict__, namespaces, self._parents, self._names, self._things, self._alive)
        self._ignored.update(map(id, (*own, *namespaces.values())))

    def _ignore(self, *ours: Any) -> None:
        self._alive += ours
        self._ignored.update(map(id, ours))

    def referrers(self, objects: list[Any]) -> list[Any]:
        asked = tuple(objects)  # one that we know: Python 3.13 lists the tuple of the call itself
        self._ignore(objects, asked)
        found = [
            one
            for one in gc.get_referrers(*asked)
            if id(one) not in self._ignored and not isinstance(one, _NO_HOLDERS)
        ]
        self._ignore(found)
        return found

    def climb(self, holders: list[Any]) -> None:
        """Ask for the holders' holders, and for theirs, until all have names. Each question is a pass over the heap."""
        for one in holders:
            self._name_root(one)
        for _ in range(_CLIMB):
            frontier = self._unexplained(holders)
            if not frontier:
                break
            self._ask(frontier)
            for _ in range(_CLIMB):
                self._hand_down_names()

    def _unexplained(self, holders: list[Any]) -> list[Any]:
        """Where to go on: what is not asked about yet, upwards from each holder without a name."""
        level = {id(one): one for one in holders if id(one) not in self._names}
        frontier: dict[int, Any] = {}
        for _ in range(_CLIMB):
            frontier |= {key: one for key, one in level.items() if key not in self._parents}
            above = [parent for key in level for parent in self._parents.get(key, ())]
            level = {id(one): one for one in above}
        found = list(frontier.values())[:_WIDEST]
        self._ignore(level, frontier, found)
        return found

    def _ask(self, children: list[Any]) -> None:
        wanted = {id(one): one for one in children}
        self._things |= wanted
        self._ignore(wanted)
        for key in wanted:
            self._parents[key] = []
            self._ignore(self._parents[key])
        for parent in self.referrers(children):
            self._name_root(parent)
            for child in {id(one) for one in gc.get_referents(parent)} & wanted.keys():
                if len(self._parents[child]) < _WIDEST or id(parent) in self._names:
                    self._parents[child].append(parent)

    def _name_root(self, thing: Any) -> None:
        namespace = self._namespaces.get(id(thing))
        if namespace is not None:
            self._names[id(thing)] = namespace[0]
        elif isinstance(thing, type | types.FunctionType):
            self._names[id(thing)] = f"{thing.__module__}.{thing.__qualname__}"

    def _hand_down_names(self) -> None:
        """`_names` is a dotted name by the id of a thing: its holder's, and the way from there."""
        for key, parents in self._parents.items():
            if key not in self._names:
                parent = next((one for one in parents if id(one) in self._names), None)
                if parent is not None:
                    self._names[key] = self._names[id(parent)] + self._step(parent, self._things[key])

    def name(self, thing: Any) -> str | None:
        """A dotted name for a holder, by way of what holds it."""
        return self._names.get(id(thing))

    def slots(self, holder: Any, swap: Swap) -> Iterator[Slot]:
        """The changeable places of `holder` that contain the old object, if the holder has a name."""
        old = swap.old
        if isinstance(holder, tuple):
            for parent in self._parents.get(id(holder), ()):
                if isinstance(parent, types.FunctionType) and parent.__defaults__ is holder:
                    name = f"{self.name(parent)} (a default argument)"
                    yield from (in_defaults(name, parent, i) for i, one in enumerate(holder) if one is old)
                elif isinstance(parent, functools.partial) and self.name(parent) is not None:
                    name = f"{self.name(parent)} (an argument of a partial)"
                    yield from (in_partial(name, parent, i + 1) for i, v in enumerate(holder) if v is old)
            return
        name_ = self.name(holder)
        if name_ is None:
            return
        if isinstance(holder, dict):
            klass = next((one for one in self._parents.get(id(holder), ()) if isinstance(one, type)), None)
            for key in [key for key, value in list(holder.items()) if value is old]:
                step = name_ + self._step(holder, old, key)
                yield in_class(step, klass, key) if klass is not None else in_mapping(step, holder, key)
        elif isinstance(holder, list | deque):
            yield from (in_list(f"{name_}[{i}]", holder, i) for i, one in enumerate(holder) if one is old)
        elif isinstance(holder, set):
            yield in_set(name_ + " (a set)", holder, swap)
        elif isinstance(holder, functools.partial) and holder.func is old:
            yield in_partial(f"{name_} (a partial)", holder, 0)
        elif not isinstance(holder, type):
            for key in [key for key, value in _attributes(holder).items() if value is old]:
                yield in_mapping(f"{name_}.{key}", _attributes(holder), key)

    def describe(self, holder: Any, swap: Swap) -> list[str]:
        """The holder in words, for the report; nothing where it does not use what it holds."""
        name = self.name(holder)
        if isinstance(holder, types.CellType):
            return [f"{name.rpartition('[')[0] if name else 'a function'} (a closure)"]
        if isinstance(holder, type):  # a C metaclass may look a method up once, when it makes the class
            return [f"{name} itself (a {type(holder).__name__} keeps its own reference)"]
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


def _attributes(thing: object) -> dict[str, Any]:
    """The instance dict of an object, empty where it has none; runs none of its code."""
    if isinstance(thing, type | types.ModuleType):
        return {}
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}
