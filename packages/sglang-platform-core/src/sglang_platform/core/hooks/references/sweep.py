"""References to a patched object that stay behind: `from X import Y` bindings first, then whatever else holds it.

One pass over `sys.modules` serves all targets of a round. Whether more is needed is told by the reference counts: only
an object that somebody still holds costs a pass over the heap (`references`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from sglang_platform.core.hooks.references.holders import reach
from sglang_platform.core.hooks.references.swaps import Swap, in_mapping, rebase_subclasses

__all__ = ["module_namespaces", "rebind"]


def rebind(swaps: Sequence[Swap], own: Callable[[], list[object]]) -> None:
    """Carry out `swaps`, noting in each what was changed and what could not be. `own` lists what we hold them with."""
    if not swaps:
        return
    _sweep_modules({id(swap.old): swap for swap in swaps})
    for swap in swaps:
        if isinstance(swap.old, type) and isinstance(swap.new, type):
            rebase_subclasses(swap)
    held = [swap for swap in still_held(swaps) if swap.name is None]
    if held:
        reach(held, own(), module_namespaces())


def still_held(swaps: Sequence[Swap]) -> list[Swap]:
    """The swaps whose old object has references that neither its site nor this list accounts for."""
    nobody_holds = Swap(object(), None)
    counts = [sys.getrefcount(swap.old) - swap.known for swap in (*swaps, nobody_holds)]
    return [swap for swap, count in zip(swaps, counts, strict=False) if count > counts[-1]]


def module_namespaces() -> dict[int, tuple[str, dict[str, Any]]]:
    """The `__dict__` of every loaded module by its id. Looks past `__getattribute__`, which may load lazy modules."""
    found: dict[int, tuple[str, dict[str, Any]]] = {}
    for name, module in list(sys.modules.items()):
        try:
            namespace = object.__getattribute__(module, "__dict__")
        except AttributeError:  # None, or an object without a namespace
            continue
        if isinstance(namespace, dict):
            found.setdefault(id(namespace), (name, namespace))
    return found


def _sweep_modules(swaps: dict[int, Swap]) -> None:
    for module, namespace in module_namespaces().values():
        if swaps.keys().isdisjoint(map(id, tuple(namespace.values()))):
            continue
        for name, value in list(namespace.items()):
            swap = swaps.get(id(value))
            if swap is None or (swap.name is not None and swap.name != name):
                continue
            if module in swap.kept:
                swap.unreached.append(f"{module}.{name} (kept: this module defines the replacement)")
            else:
                swap.change(in_mapping(f"{module}.{name}", namespace, name))
