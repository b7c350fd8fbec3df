"""Compares a coupling between two releases."""

from __future__ import annotations

from sglang_platform.devtools.upgrade.compare_classes import base_changes, construct_change
from sglang_platform.devtools.upgrade.compare_hooks import HookAnswers
from sglang_platform.devtools.upgrade.compare_members import (
    call_change,
    field_change,
    override_change,
    unpack_change,
)
from sglang_platform.devtools.upgrade.compare_names import import_change
from sglang_platform.devtools.upgrade.compare_texts import text_change
from sglang_platform.devtools.upgrade.coupling import Coupling
from sglang_platform.devtools.upgrade.rows import CouplingChange
from sglang_platform.devtools.upgrade.sides import Sides

__all__ = ["changes_of"]


def changes_of(coupling: Coupling, sides: Sides, hooks: HookAnswers) -> list[CouplingChange]:
    """The changes of one coupling; a base class may have several."""
    if coupling.reach.kind == "never":
        return []
    match coupling.kind:
        case "import":
            found = import_change(coupling, sides)
        case "base":
            return base_changes(coupling, sides)
        case "override":
            found = override_change(coupling, sides)
        case "call":
            found = call_change(coupling, sides)
        case "construct":
            found = construct_change(coupling, sides)
        case "field":
            found = field_change(coupling, sides)
        case "unpack":
            found = unpack_change(coupling, sides)
        case "hook" | "patch":
            found = hooks.change(coupling)
        case _:
            found = text_change(coupling, sides)
    return [found] if found is not None else []
