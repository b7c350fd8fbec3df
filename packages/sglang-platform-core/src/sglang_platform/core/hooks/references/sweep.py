"""A sweep executes all swaps of a round: it finds the other holders of the old objects, and changes or reports them.

It starts with the cheap and most common cases: names that modules have bound by ``from X import Y``, in one pass over
`sys.modules`, and the subclasses of replaced classes. The reference count shows whether other holders are left. Only
then is the heap searched (`holders`), which takes far longer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from sglang_platform.core.hooks.references.holders import Namespaces, change_holders
from sglang_platform.core.hooks.references.swaps import Swap, in_mapping, rebase_subclasses
from sglang_platform.core.hooks.targets import own_names

__all__ = ["module_namespaces", "sweep"]


def sweep(swaps: Sequence[Swap], own: Callable[[], list[object]]) -> None:
    """Execute `swaps`, at most one per old object. `own` lists our internal objects that refer to old objects."""
    if not swaps:
        return
    _sweep_modules({id(swap.old): swap for swap in swaps})
    for swap in swaps:
        if isinstance(swap.old, type) and isinstance(swap.new, type):
            rebase_subclasses(swap)
    held = [swap for swap in _still_held(swaps) if swap.name is None]
    if held:
        change_holders(held, own(), module_namespaces())


def module_namespaces() -> Namespaces:
    """The namespace of every loaded module. Bypasses `__getattribute__`, which may load lazy modules."""
    found: Namespaces = {}
    # Foreign dicts are always copied atomically: while items() is turned into a list, garbage collection may run code,
    # and another thread may change the dict.
    for name, module in sys.modules.copy().items():
        namespace = own_names(module)
        if namespace:  # None in sys.modules has none
            found.setdefault(id(namespace), (name, namespace))
    return found


def _sweep_modules(swaps: dict[int, Swap]) -> None:
    """Change the module attributes that refer to old objects. `swaps` is keyed by the id of the old object."""
    for module, namespace in module_namespaces().values():
        if swaps.keys().isdisjoint(map(id, tuple(namespace.values()))):
            continue
        for name, value in dict.copy(namespace).items():
            swap = swaps.get(id(value))
            if swap is None or swap.name not in (None, name):
                continue
            if module in swap.kept:
                swap.keep(f"{module}.{name}")
            else:
                swap.change(in_mapping(f"{module}.{name}", namespace, name))


def _still_held(swaps: Sequence[Swap]) -> list[Swap]:
    """The swaps whose old object has more references than its site and its swap hold."""
    nobody_holds = Swap(object(), None)  # baseline: the references that this function itself makes
    counts = [sys.getrefcount(swap.old) - swap.known for swap in (*swaps, nobody_holds)]
    return [swap for swap, count in zip(swaps, counts, strict=False) if count > counts[-1]]
