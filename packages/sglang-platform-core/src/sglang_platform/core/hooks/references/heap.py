"""The heap as far as it is asked: who refers to an object, and by which name is that one reached.

`gc.get_referrers` tells who refers to an object, in a pass over the whole heap. An object has a name where a module, a
class or a function leads to it in few steps: ``models.KINDS['model']`` is the dict `KINDS` of the module `models`, and
a step into it. Finding a name climbs from the object to its holders, to theirs, and so on.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Sequence
from typing import Any

__all__ = ["Heap", "Namespaces", "instance_dict"]

Namespaces = dict[int, tuple[str, dict[str, Any]]]
"""The name and the ``__dict__`` of each module, by the id of that ``__dict__``."""

_CLIMB = 3
"""How many steps from a module, class or function names are looked for."""

_WIDEST = 64
"""For how many objects at once, and among how many holders of one."""

_NO_HOLDERS = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
"""They hold an object only while they run."""


class Heap:
    """Who refers to whom, and by which names, as far as it was asked.

    Whatever we make for asking refers to what we ask about, and must not be found as its holder. So all our own lists
    and dicts are noted by id in `_ignored`, and kept in `_alive`: an id must not be used again for somebody else's.
    """

    def __init__(self, ignored: Sequence[object], namespaces: Namespaces) -> None:
        """`ignored` are never taken for holders."""
        self._namespaces = namespaces
        self._holders: dict[int, list[Any]] = {}
        self._names: dict[int, str] = {}
        self._asked: dict[int, Any] = {}
        """The objects whose holders were asked for. All three are by the id of an object."""
        self._alive: list[Any] = [ignored]
        self._ignored = {id(one) for one in (*ignored, ignored, *namespaces.values())}
        own = (self, vars(self), namespaces, self._holders, self._names, self._asked, self._alive)
        self._ignored.update(map(id, own))

    def referrers(self, objects: list[Any]) -> list[Any]:
        """Whoever refers to one of `objects`. One pass over the heap."""
        asked = tuple(objects)  # one that we know: Python 3.13 lists the tuple of the call itself
        self._ignore(objects, asked)
        found = [
            one
            for one in gc.get_referrers(*asked)
            if id(one) not in self._ignored and not isinstance(one, _NO_HOLDERS)
        ]
        self._ignore(found)
        return found

    def climb(self, things: list[Any]) -> None:
        """Look for names of `things`: ask for their holders, and for theirs, until each has one or it is too far."""
        for one in things:
            self._name_root(one)
        for _ in range(_CLIMB):
            nameless = self._nameless(things)
            if not nameless:
                break
            self._ask_holders(nameless)
            for _ in range(_CLIMB):
                self._hand_down_names()

    def name(self, thing: Any) -> str | None:
        """A dotted name, by way of what holds the thing; None where none was found."""
        return self._names.get(id(thing))

    def holders(self, thing: Any) -> Sequence[Any]:
        """Who refers to the thing, if the climb came by it."""
        return self._holders.get(id(thing), ())

    def step(self, holder: Any, held: Any, key: Any = None) -> str:
        """How `held` is reached from `holder`, as it would be written. `key` is its key in a dict, where known."""
        if isinstance(holder, dict):
            if key is None:
                key = next((k for k, value in dict.copy(holder).items() if value is held), None)
            return f".{key}" if self._is_namespace(holder) else f"[{key!r}]"
        if isinstance(holder, list | tuple):
            return f"[{next((i for i, value in enumerate(holder) if value is held), '...')}]"
        return next(
            (f".{name}" for name, value in dict.copy(instance_dict(holder)).items() if value is held), ""
        )

    def _ignore(self, *ours: Any) -> None:
        self._alive += ours
        self._ignored.update(map(id, ours))

    def _nameless(self, things: list[Any]) -> list[Any]:
        """Where the climb goes on: upwards from each thing without a name, what was not asked about yet."""
        level = {id(one): one for one in things if id(one) not in self._names}
        found: dict[int, Any] = {}
        for _ in range(_CLIMB):
            found |= {key: one for key, one in level.items() if key not in self._holders}
            above = [holder for key in level for holder in self._holders.get(key, ())]
            level = {id(one): one for one in above}
        widest = list(found.values())[:_WIDEST]
        self._ignore(level, found, widest)
        return widest

    def _ask_holders(self, things: list[Any]) -> None:
        wanted = {id(one): one for one in things}
        self._asked |= wanted
        self._ignore(wanted)
        for key in wanted:
            self._holders[key] = []
            self._ignore(self._holders[key])
        for holder in self.referrers(things):
            self._name_root(holder)
            for key in {id(one) for one in gc.get_referents(holder)} & wanted.keys():
                if len(self._holders[key]) < _WIDEST or id(holder) in self._names:
                    self._holders[key].append(holder)

    def _name_root(self, thing: Any) -> None:
        """Modules, classes and functions have names of their own."""
        namespace = self._namespaces.get(id(thing))
        if namespace is not None:
            self._names[id(thing)] = namespace[0]
        elif isinstance(thing, type | types.FunctionType):
            self._names[id(thing)] = f"{thing.__module__}.{thing.__qualname__}"

    def _hand_down_names(self) -> None:
        """Whatever has a holder with a name is named after it."""
        for key, holders in self._holders.items():
            if key not in self._names:
                holder = next((one for one in holders if id(one) in self._names), None)
                if holder is not None:
                    self._names[key] = self._names[id(holder)] + self.step(holder, self._asked[key])

    def _is_namespace(self, mapping: dict[Any, Any]) -> bool:
        """Is it the ``__dict__`` of a module, a class or an object, and so written with a dot?"""
        return id(mapping) in self._namespaces or any(
            isinstance(one, type) or instance_dict(one) is mapping for one in self.holders(mapping)
        )


def instance_dict(thing: object) -> dict[str, Any]:
    """The instance dict of an object, empty where it has none; runs none of its code."""
    if isinstance(thing, type | types.ModuleType):
        return {}
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}
