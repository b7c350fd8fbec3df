"""Whether a hook fits its target, as their sources write both.

That is asked of the engine itself: both are rebuilt as empty functions with the written parameters, and those are
given to the check that the engine makes when it applies a hook.
"""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.patching.place import Place
from sglang_platform.core.hooks.patching.site import Site
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.inspect.registrations import WrittenHook
from sglang_platform.core.source.answers import Definition
from sglang_platform.core.source.signatures import FunctionNode, bare_parameters, decorators, yields

__all__ = ["misfit"]

_WRAPPERS = {"property": property, "classmethod": classmethod, "staticmethod": staticmethod}


def misfit(target: Definition, hook: WrittenHook) -> tuple[str | None, list[str]]:
    """Why the engine would refuse the hook (None: it would not), and the arguments it cannot take by name."""
    node = target.node
    if hook.node is None or not isinstance(node, FunctionNode | ast.ClassDef):
        return None, []
    name = target.address.path[-1]
    module = ModuleType(target.address.module)
    owner: Any = type("Owner", (), {}) if len(target.address.path) > 1 else module
    raw = _rebuilt(node)
    wrapper = next((one for one in decorators(node) if one in _WRAPPERS), None)
    if wrapper is not None and isinstance(owner, type):
        raw = _WRAPPERS[wrapper](raw)
    key = f"{target.address.module}.{'.'.join(target.address.path)}"
    try:
        registration = Registration(key, str(target.address), _rebuilt(hook.node), hook.type, None, True, 0)
        site = Site(Place(owner, name, raw, False), str(target.address))
    except HookError as error:
        return error.why or error.what, []
    refusal = site.refusal(registration)
    return (refusal[1], []) if refusal is not None else (None, site.by_position_only(registration))


def _rebuilt(node: FunctionNode | ast.ClassDef) -> Any:
    """An empty function or class with the written name and parameters. Nothing of the source is run."""
    if isinstance(node, ast.ClassDef):
        return type(node.name, (), {})
    name = getattr(node, "name", "hook")
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    body = "yield" if yields(node) else "pass"
    parameters = bare_parameters(node.args, lambda default: ast.Constant(None))
    names: dict[str, Any] = {}
    exec(f"{kind} {name}({ast.unparse(parameters)}): {body}", names)
    return names[name]
