"""Finds holders other than module names by one pass over the heap: dicts, lists, default arguments, partials.

Needed by SGLang's `attention_registry.ATTENTION_BACKENDS`, which decorators fill while the target's own module runs,
before any hook can be applied. The fault table requires changing dicts, partials and default arguments, and reporting
the names of closures, tuples and bound methods.

A holder is changed if it is reachable from a module in few steps. A holder that cannot be changed is reported. A holder
without a name is left unchanged: it may be a saved reference to the original, kept to call it.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from sglang_platform.core.hooks.references.swaps import (
    Slot,
    Swap,
    in_class,
    in_defaults,
    in_list,
    in_mapping,
    in_partial,
)
from sglang_platform.core.hooks.targets import own_names

__all__ = ["Namespaces", "change_holders"]

Namespaces = dict[int, tuple[str, dict[str, Any]]]
"""The name and the ``__dict__`` of each module, by the id of that ``__dict__``."""

_CLIMB = 3
"""Maximum number of steps from a module, class or function to a holder."""

_WIDEST = 64
"""Maximum number of unnamed objects per search step."""

_RUNNING = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
"""Types that refer to an object only while they run."""

_OF_THE_CLASS_ITSELF = (
    type,
    types.CellType,  # `__class__`, for super()
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.GenericAlias,
    types.UnionType,
)
"""Types that refer to a class as part of it or in an annotation. Subclasses are already handled by `sweep`."""

_ONLY_NAMES_IT = ("__annotations__", "__wrapped__", "__mro__")
"""Attributes that refer to an object without using it."""


def change_holders(swaps: Sequence[Swap], own: list[object], namespaces: Namespaces) -> None:
    """Change or report every holder of the old objects on the heap, except `own` and module namespaces."""
    olds = [swap.old for swap in swaps]
    names = _Names([*own, own, *swaps, swaps, olds], namespaces)
    holders = [one for one in names.referrers(olds) if id(one) not in namespaces]
    # Must run before climb(): reading an object's attributes materialises its __dict__.
    held = [{id(value) for value in gc.get_referents(holder)} for holder in holders]
    names.climb(holders)
    for swap in swaps:
        for holder, values in zip(holders, held, strict=True):
            if id(swap.old) in values and not _belongs_to(swap.old, holder):
                _change_holder(swap, holder, names)


class _Names:
    """Dotted names of holders: ``models.KINDS['model']`` is a step into the dict `KINDS` of the module `models`.

    Lists made by this search also refer to the old objects, but are no holders. `_ours` records them and keeps them
    alive, so that their ids stay valid.
    """

    def __init__(self, ours: list[Any], namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._names: dict[int, str] = {}
        self.parents: dict[int, Any] = {}
        """By id of an object, the holder that its name is derived from."""
        self._ours: list[Any] = [*ours, ours, *namespaces.values(), vars(self), self._names, self.parents]

    def of(self, thing: object) -> str | None:
        return self._names.get(id(thing))

    def referrers(self, things: Iterable[Any]) -> list[Any]:
        """The objects that refer to one of `things`. Makes one pass over the heap."""
        asked = tuple(things)  # a known tuple, since Python 3.13 reports the call's argument tuple
        self._ours.append(asked)
        ours = {id(self._ours), *map(id, self._ours)}
        found = [
            one
            for one in gc.get_referrers(*asked)
            if id(one) not in ours and not isinstance(one, _RUNNING) and not _is_of_the_hooks(one)
        ]
        self._ours.append(found)
        return found

    def climb(self, things: list[Any]) -> None:
        """Name `things`: collect their holders and the holders of these, then derive names top-down."""
        levels = [things]
        self._ours += [things, levels]
        while len(levels) <= _CLIMB:
            nameless = [one for one in levels[-1] if not self._name_root(one)][:_WIDEST]
            self._ours.append(nameless)
            if not nameless:
                break
            levels.append(self.referrers(nameless))
        for one in levels[-1]:
            self._name_root(one)
        for lower, upper in reversed(list(pairwise(levels))):
            wanted = {id(one): one for one in lower}
            for holder in (one for one in upper if id(one) in self._names):
                for one in gc.get_referents(holder):
                    if id(one) in wanted and id(one) not in self._names:
                        self.parents[id(one)] = holder
                        self._names[id(one)] = self._names[id(holder)] + self.step(holder, one)

    def step(self, holder: Any, held: Any, key: Any = None) -> str:
        """The expression that leads from `holder` to `held`, e.g. ``.name``. `key` is its key in a dict, if known."""
        parent = self.parents.get(id(holder))
        if isinstance(holder, dict):
            if key is None:
                key = next((k for k, value in dict.copy(holder).items() if value is held), None)
            dotted = isinstance(parent, type) or _instance_dict(parent) is holder
            return f".{key}" if dotted or id(holder) in self._namespaces else f"[{key!r}]"
        if isinstance(holder, list | tuple) and not isinstance(parent, types.FunctionType):
            return f"[{next((i for i, value in enumerate(holder) if value is held), '...')}]"
        attributes = dict.copy(_instance_dict(holder)).items()
        return next((f".{name}" for name, value in attributes if value is held), "")

    def _name_root(self, thing: Any) -> bool:
        """Name a module, class or function by itself; returns whether `thing` has a name."""
        if id(thing) in self._namespaces:
            self._names[id(thing)] = self._namespaces[id(thing)][0]
        elif isinstance(thing, type | types.FunctionType):
            self._names[id(thing)] = f"{thing.__module__}.{thing.__qualname__}"
        return id(thing) in self._names


def _is_of_the_hooks(thing: object) -> bool:
    """True for closures of slots: earlier edits refer to holders through them."""
    return isinstance(thing, types.FunctionType) and thing.__module__ == Slot.__module__


def _belongs_to(old: object, holder: Any) -> bool:
    """True if the holder is a part or an instance of the old class, or a swap."""
    is_part = isinstance(old, type) and (isinstance(holder, _OF_THE_CLASS_ITSELF) or type(holder) is old)
    return is_part or isinstance(holder, Swap)


def _change_holder(swap: Swap, holder: Any, names: _Names) -> None:
    slots = list(_slots(holder, swap.old, names))
    if not slots:
        swap.unreached += _described(holder, swap.old, names)
    for slot in slots:
        if slot.name.partition("[")[0].endswith(_ONLY_NAMES_IT):
            continue
        if any(slot.name.startswith(f"{module}.") for module in swap.kept):
            swap.keep(slot.name)
        else:
            swap.change(slot)


def _slots(holder: Any, old: object, names: _Names) -> Iterator[Slot]:
    """The slots of `holder` that refer to the old object; none if the holder has no name."""
    name, parent = names.of(holder), names.parents.get(id(holder))
    if name is None:
        return
    if isinstance(holder, dict):
        for key in [key for key, value in dict.copy(holder).items() if value is old]:
            full_name = name + names.step(holder, old, key)
            if isinstance(parent, type):
                yield in_class(full_name, parent, key)
            else:
                yield in_mapping(full_name, holder, key)
    elif isinstance(holder, list):
        yield from (in_list(f"{name}[{i}]", holder, i) for i, one in enumerate(holder) if one is old)
    elif isinstance(holder, tuple):
        # A tuple is immutable, but a function's default arguments can be replaced.
        if isinstance(parent, types.FunctionType) and parent.__defaults__ is holder:
            for i in (i for i, one in enumerate(holder) if one is old):
                yield in_defaults(f"{name} (a default argument)", parent, i)
    elif isinstance(holder, functools.partial) and holder.func is old:
        yield in_partial(f"{name} (a partial)", holder)
    elif not isinstance(holder, type):
        attributes = _instance_dict(holder)
        for key in [key for key, value in dict.copy(attributes).items() if value is old]:
            yield in_mapping(f"{name}.{key}", attributes, key)


def _described(holder: Any, old: object, names: _Names) -> list[str]:
    """The holder's description for the report; empty if it does not use the old object."""
    name = names.of(holder)
    kind = f"a {type(holder).__name__}"
    if isinstance(holder, types.CellType):
        return [f"{name or 'a function'} (a closure)"]
    if isinstance(holder, type):  # a C metaclass may cache a method when it creates the class
        return [f"{name} itself ({kind} keeps its own reference)"]
    if isinstance(holder, types.MethodType):
        return [f"{name or 'somewhere'} (a bound method of a {type(holder.__self__).__name__} object)"]
    if isinstance(holder, tuple) and isinstance(old, type) and (name is None or _is_of_bases(holder, names)):
        return []
    if isinstance(holder, dict) and any(key is old for key in holder):
        return [f"{name or 'a dict'} (as a key)"]
    return [f"{name} ({kind})" if name else f"{kind} without a name"]


def _is_of_bases(holder: tuple[Any, ...], names: _Names) -> bool:
    parent = names.parents.get(id(holder))
    return isinstance(parent, type) and (holder is parent.__mro__ or holder is parent.__bases__)


def _instance_dict(thing: object) -> dict[str, Any]:
    """The instance dict of an object, read without running its code; empty if it has none."""
    return {} if isinstance(thing, type | types.ModuleType) else own_names(thing)
