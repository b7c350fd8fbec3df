"""Whether a class derives from a class of another distribution."""

from __future__ import annotations

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.lookup import ADDS_NOTHING, Lookup

__all__ = ["has_foreign_base"]


def has_foreign_base(lookup: Lookup, definition: Definition, seen: frozenset[Address] = frozenset()) -> bool:
    """True if a base class is unknown, or from another distribution, which may call the class's methods."""
    module, scope = lookup.module_of(definition), lookup.class_scope(definition)
    if definition.address in seen or module is None or scope is None:
        return True
    for base in scope.bases:
        if base is None:
            return True
        foreign = lookup.foreign_name(module, base)
        if foreign is None:
            found = lookup.find(Address(module.name, base))
            if not isinstance(found, Definition) or has_foreign_base(
                lookup, found, seen | {definition.address}
            ):
                return True
        elif foreign not in ADDS_NOTHING:
            return True
    return False
