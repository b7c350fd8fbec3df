"""The rows of `HookRegistry.report()`: what became of each hook in this process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypedDict

from sglang_platform.core.hooks.registration import Registration, State

__all__ = ["HookRecord", "as_text", "record"]


class HookRecord(TypedDict):
    """One hook, in values that `json.dumps` takes."""

    target: str
    """``pkg.mod:Class.attr`` once the module is known, else as it was registered."""
    type: str
    """``before``, ``after``, ``around`` or ``replace``."""
    hook: str
    """Module and qualified name of the hook."""
    plugin: str | None
    distribution: str | None
    version: str | None
    required: bool
    order: int
    state: State
    """``pending``: its module has not run in this process. ``applied``: in force. ``failed``: see `why`."""
    why: str | None
    unreached: list[str]
    """Places that still hold what the hook was meant to cover, by name."""
    pid: int


def record(registration: Registration, target: str) -> HookRecord:
    origin = registration.origin
    return HookRecord(
        target=target,
        type=registration.type.value,
        hook=registration.hook_name,
        plugin=origin.name if origin else None,
        distribution=origin.distribution if origin else None,
        version=origin.version if origin else None,
        required=registration.required,
        order=registration.order,
        state=registration.state,
        why=registration.why,
        unreached=list(registration.unreached),
        pid=os.getpid(),
    )


def as_text(records: Iterable[HookRecord]) -> str:
    """One line per hook, with the cause and the unreached places below it."""
    lines = []
    for row in records:
        plugin = f"  [{row['plugin']}]" if row["plugin"] else ""
        lines.append(f"{row['state']:<8} {row['type']:<8} {row['target']}  <- {row['hook']}{plugin}")
        if row["why"]:
            lines.append(f"         {row['why']}")
        lines.extend(f"         not reached: {name}" for name in row["unreached"])
    return "\n".join(lines)
