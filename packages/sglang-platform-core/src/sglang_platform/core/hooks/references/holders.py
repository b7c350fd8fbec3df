"""Holders that are no module names: dicts and lists, defaults, partials, aliases, attributes of objects.

A holder that can be changed and has a name is changed. One that cannot be is reported, by its name or its kind. One
without a name is left alone: it may be somebody's copy of the original, kept to call it.
"""

from __future__ import annotations

import functools
import gc
import types
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from sglang_platform.core.hooks.references.heap import Heap, Namespaces, instance_dict
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

__all__ = ["change_holders"]

_OF_THE_CLASS_ITSELF = (
    type,
    types.CellType,  # `__class__`, for super()
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.GenericAlias,
    types.UnionType,
)
"""They hold a class because they were made with it, or name it in an annotation. Subclasses are served before."""

_ONLY_NAMES_IT = ("__annotations__", "__wrapped__", "__mro__")
"""Attributes that tell of an object without using it."""


def change_holders(swaps: Sequence[Swap], own: list[object], namespaces: Namespaces) -> None:
    """Change or report every holder of the old objects that the heap knows, except `own` and the modules themselves."""
    olds = [swap.old for swap in swaps]
    heap = Heap([*own, own, *swaps, swaps, olds], namespaces)
    holders = [one for one in heap.referrers(olds) if id(one) not in namespaces]
    # Asked for before the climb: looking at an object's attributes moves them into a dict.
    held = [{id(value) for value in gc.get_referents(holder)} for holder in holders]
    heap.climb(holders)
    for swap in swaps:
        for holder, values in zip(holders, held, strict=True):
            if id(swap.old) in values and not _belongs_to(swap.old, holder):
                _change_holder(swap, holder, heap)


def _belongs_to(old: object, holder: Any) -> bool:
    """Does the holder hold a class as its own part, or is it a swap of ours?"""
    is_part = isinstance(old, type) and (isinstance(holder, _OF_THE_CLASS_ITSELF) or type(holder) is old)
    return is_part or isinstance(holder, Swap)


def _change_holder(swap: Swap, holder: Any, heap: Heap) -> None:
    slots = list(_slots(holder, swap, heap))
    if not slots:
        swap.unreached += _described(holder, swap, heap)
    for slot in slots:
        if slot.name.partition("[")[0].endswith(_ONLY_NAMES_IT):
            continue
        if any(slot.name.startswith(f"{module}.") for module in swap.kept):
            swap.keep(slot.name)
        else:
            swap.change(slot)


def _slots(holder: Any, swap: Swap, heap: Heap) -> Iterator[Slot]:
    """The slots of `holder` that hold the old object, if the holder has a name."""
    old, name = swap.old, heap.name(holder)
    if isinstance(holder, tuple):
        yield from _slots_of_owners(holder, old, heap)
    elif name is None:
        return
    elif isinstance(holder, dict):
        yield from _slots_in_dict(name, holder, old, heap)
    elif isinstance(holder, list | deque):
        yield from (in_list(f"{name}[{i}]", holder, i) for i in _positions(holder, old))
    elif isinstance(holder, set):
        yield in_set(f"{name} (a set)", holder, swap)
    elif isinstance(holder, functools.partial) and holder.func is old:
        yield in_partial(f"{name} (a partial)", holder, 0)
    elif not isinstance(holder, type):
        attributes = instance_dict(holder)
        for key in [key for key, value in dict.copy(attributes).items() if value is old]:
            yield in_mapping(f"{name}.{key}", attributes, key)


def _slots_of_owners(holder: tuple[Any, ...], old: object, heap: Heap) -> Iterator[Slot]:
    """A tuple cannot be changed, but one that a function or a partial has for its arguments can be exchanged."""
    for owner in heap.holders(holder):
        name = heap.name(owner)
        if isinstance(owner, types.FunctionType) and owner.__defaults__ is holder:
            for i in _positions(holder, old):
                yield in_defaults(f"{name} (a default argument)", owner, i)
        elif isinstance(owner, functools.partial) and name is not None:
            for i in _positions(holder, old):
                yield in_partial(f"{name} (an argument of a partial)", owner, i + 1)


def _slots_in_dict(name: str, holder: dict[Any, Any], old: object, heap: Heap) -> Iterator[Slot]:
    klass = next((one for one in heap.holders(holder) if isinstance(one, type)), None)
    for key in [key for key, value in dict.copy(holder).items() if value is old]:
        full_name = name + heap.step(holder, old, key)
        yield in_mapping(full_name, holder, key) if klass is None else in_class(full_name, klass, key)


def _positions(items: Sequence[Any], old: object) -> Iterator[int]:
    return (i for i, one in enumerate(items) if one is old)


def _described(holder: Any, swap: Swap, heap: Heap) -> list[str]:
    """The holder in words, for the report; nothing where it does not use what it holds."""
    name = heap.name(holder)
    kind = f"a {type(holder).__name__}"
    if isinstance(holder, types.CellType):
        return [f"{name.rpartition('[')[0] if name else 'a function'} (a closure)"]
    if isinstance(holder, type):  # a C metaclass may look a method up once, when it makes the class
        return [f"{name} itself ({kind} keeps its own reference)"]
    if isinstance(holder, types.MethodType):
        return [f"{name or 'somewhere'} (a bound method of a {type(holder.__self__).__name__} object)"]
    if isinstance(holder, tuple) and isinstance(swap.old, type):
        classes = [one for one in heap.holders(holder) if isinstance(one, type)]
        if name is None or any(holder is one.__mro__ or holder is one.__bases__ for one in classes):
            return []
    if isinstance(holder, dict) and any(key is swap.old for key in holder):
        return [f"{name or 'a dict'} (as a key)"]
    return [f"{name} ({kind})" if name else f"{kind} without a name"]
