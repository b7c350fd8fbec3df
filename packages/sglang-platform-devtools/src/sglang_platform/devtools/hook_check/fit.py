"""Whether a hook fits its target, judged from the sources of both.

Both are rebuilt as empty functions with the same parameters, and passed to the check that the hook engine makes when
it applies a hook.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.call.fit import misfit as parameters_differ
from sglang_platform.core.hooks.call.fit import refusal, taken_by_position_only
from sglang_platform.core.hooks.call.kinds import hookable
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.devtools.registrations import WrittenHook
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.signatures import FunctionNode, bare_parameters, decorators, yields

__all__ = ["Misfit", "misfit"]


class Misfit(NamedTuple):
    """Why the engine would refuse a hook. `by_parameters`: only the parameters do not fit. `by_position`: the arguments
    that the hook cannot take by name."""

    why: str | None = None
    by_parameters: bool = False
    by_position: tuple[str, ...] = ()


_WRAPPERS = {"property": property, "classmethod": classmethod, "staticmethod": staticmethod}


def misfit(target: Definition, hook: WrittenHook) -> Misfit:
    """The engine's verdict on the hook."""
    node = target.node
    if hook.node is None or not isinstance(node, FunctionNode | ast.ClassDef):
        return Misfit()
    name = target.address.path[-1]
    owner: Any = object if len(target.address.path) > 1 else None
    raw = _rebuilt(node)
    wrapper = next((one for one in decorators(node) if one in _WRAPPERS), None)
    if wrapper is not None and owner is not None:
        raw = _WRAPPERS[wrapper](raw)
    found = hookable(raw, owner, name)
    if isinstance(found, str):
        return Misfit(found)
    where = str(target.address)
    try:
        registration = Registration(where, where, _rebuilt(hook.node), hook.type, None, True, 0)
    except HookError as error:
        return Misfit(error.why or error.what)
    why = refusal(found, registration)
    if why:
        return Misfit(why, why == parameters_differ(found.function, registration.hook, registration.type))
    return Misfit(by_position=tuple(taken_by_position_only(found, registration, raw, owner)))


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
