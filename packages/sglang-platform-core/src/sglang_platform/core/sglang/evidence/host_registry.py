"""Reports the hooks in SGLang's own registry, which only logs failures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from sglang_platform.core.errors import HookTargetError
from sglang_platform.core.hooks import existence
from sglang_platform.core.hooks.targets import MissingModule, parse, resolve
from sglang_platform.core.spelling import shown

__all__ = ["as_rows", "host_hooks"]


def host_hooks() -> Iterator[dict[str, Any]]:
    """The hooks in SGLang's registry in this process; none if the registry is not loaded."""
    registry: Any = getattr(sys.modules.get("sglang.srt.plugins.hook_registry"), "HookRegistry", None)
    for target, hooks in getattr(registry, "_hooks", {}).items():
        for kind, hook, source in hooks:
            yield {
                "target": target,
                "type": kind.value,
                "hook": f"{hook.__module__}.{hook.__qualname__}"
                if hasattr(hook, "__qualname__")
                else shown(hook),
                "plugin": source.plugin_name if source else None,
                "distribution": source.dist_name if source else None,
                "applied": target in registry._patched,
            }


def as_rows() -> list[dict[str, Any]]:
    """The same hooks as rows of `HookRegistry.report()`; state `failed` if the installed SGLang lacks the target."""
    rows = []
    for one in host_hooks():
        applied = one.pop("applied")
        why = None if applied else _missing(one["target"])
        state = "applied" if applied else "failed" if why else "pending"
        rows.append({**one, "registry": "sglang", "state": state, "why": why, "unreached": []})
    existence.forget()
    return rows


def _missing(target: str) -> str | None:
    """Why SGLang's registry can never apply a hook on this target; None if it can, or if unknown."""
    try:
        address = resolve(parse(target))
    except HookTargetError as error:
        return error.what
    lacked = address if isinstance(address, MissingModule) else existence.missing(address)
    if lacked is not None:
        near = f"; did you mean {' or '.join(lacked.nearest[:3])}?" if lacked.nearest else ""
        return f"{lacked.why}{near}"
    module, colon, path = target.partition(":")
    if colon and "." not in path:
        return (
            f"SGLang's registry never applies it: it cuts the target at its last dot; write {module}.{path}"
        )
    return None
