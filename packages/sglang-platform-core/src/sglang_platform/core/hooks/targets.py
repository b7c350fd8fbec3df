"""Target names, and which part of one is the module. Nothing is imported for it."""

from __future__ import annotations

import sys
from typing import NamedTuple

from sglang_platform.core.errors import HookTargetError
from sglang_platform.core.installed.address import Address, nearest
from sglang_platform.core.installed.modules import Found, find_module, submodules
from sglang_platform.core.spelling import shown

__all__ = ["MissingModule", "Target", "parse", "resolve"]


class Target(NamedTuple):
    """A parsed target. `key` is the same for both spellings; `module` is None where the name does not tell."""

    key: str
    module: str | None
    path: tuple[str, ...]


class MissingModule(NamedTuple):
    """No module found for a target: what was looked for, and the nearest name that exists."""

    why: str
    nearest: tuple[str, ...]


def parse(spelling: str) -> Target:
    """Read ``pkg.mod:Class.attr`` or ``pkg.mod.Class.attr``. Raises HookTargetError for anything else."""
    text = spelling if isinstance(spelling, str) else ""
    module, colon, qualname = text.partition(":")
    key = text.replace(":", ".", 1)
    parts = key.split(".")
    if len(parts) < 2 or not all(map(str.isidentifier, parts)) or (colon and not (module and qualname)):
        raise HookTargetError(
            f"{shown(spelling)} is not a hook target",
            fix="name a module and an attribute: 'pkg.mod:function', 'pkg.mod:Class.method' or the dotted form",
        )
    return Target(key, module if colon else None, tuple((qualname if colon else key).split(".")))


def resolve(target: Target) -> Address | MissingModule:
    """Split a target into module and attribute path: the longest prefix that is a module, the last part never."""
    parts = target.key.split(".")
    first = len(target.module.split(".")) if target.module else 1
    name, found = _longest_loaded(parts)
    for count in range(name.count(".") + 2 if name else 1, len(parts)):
        if found is not None and found.search_path is None and count > first:
            break
        candidate = ".".join(parts[:count])
        step = find_module(candidate, found)
        if step is None:
            if count > first:
                break
            return _missing(parts[count - 1], name, found)
        name, found = candidate, step
    return Address(name, tuple(parts[len(name.split(".")) :]))


def _longest_loaded(parts: list[str]) -> tuple[str, Found | None]:
    for count in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:count])
        if sys.modules.get(name) is not None:
            return name, find_module(name)
    return "", None


def _missing(part: str, package: str, found: Found | None) -> MissingModule:
    where = f"the package {package!r} has" if package else "there is"
    prefix = f"{package}." if package else ""
    return MissingModule(
        f"{where} no module {part!r}", tuple(prefix + name for name in nearest(part, submodules(found)))
    )
