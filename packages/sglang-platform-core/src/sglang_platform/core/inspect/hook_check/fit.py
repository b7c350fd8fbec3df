"""Whether a hook fits its target, as their sources write both.

That is asked of the engine itself: both are rebuilt as empty functions with the written parameters, and those are
given to the check that the engine makes when it applies a hook.
"""

from __future__ import annotations

import ast
from typing import Any

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.call.kinds import hookable
from sglang_platform.core.hooks.call.refusals import refusal, taken_by_position_only
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
    owner: Any = object if len(target.address.path) > 1 else None
    raw = _rebuilt(node)
    wrapper = next((one for one in decorators(node) if one in _WRAPPERS), None)
    if wrapper is not None and owner is not None:
        raw = _WRAPPERS[wrapper](raw)
    found = hookable(raw, owner, name)
    if isinstance(found, str):
        return found, []
    where = str(target.address)
    try:
        registration = Registration(where, where, _rebuilt(hook.node), hook.type, None, True, 0)
    except HookError as error:
        return error.why or error.what, []
    why = refusal(found, registration)
    return (why, []) if why else (None, taken_by_position_only(found, registration, raw, owner))


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
