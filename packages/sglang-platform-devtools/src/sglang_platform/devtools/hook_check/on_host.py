"""Checks of hooks on SGLang's own registry and of monkey-patches, for which nothing checks whether they fit.

A hook fails here only if a call in the host cannot pass; a parameter that no call gives may be missing. Targets that
SGLang's registry itself mishandles, as read from `sglang.srt.plugins.hook_registry`, are reported as well.
"""

from __future__ import annotations

import ast

from sglang_platform.core.hooks.targets import Target
from sglang_platform.core.hooks.types import HookType
from sglang_platform.devtools.host_calls import first_not_taken
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.signatures import FunctionNode, decorators, signature_of
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["call_not_taken", "cut_at_its_last_dot", "fault_of_registry"]


def cut_at_its_last_dot(target: str) -> str | None:
    """Why SGLang's registry never applies a target with a colon before its last part; None for other targets."""
    module, colon, path = target.partition(":")
    if not colon or "." in path:
        return None
    return f"SGLang's registry never applies it: it cuts the target at its last dot; write {module}.{path}"


def fault_of_registry(wanted: WantedHook, target: Target, definition: Definition) -> str | None:
    """What SGLang's registry does wrong with a target of this kind; None if it hooks it correctly."""
    node, hook = definition.node, wanted.hook
    if not isinstance(node, FunctionNode) or hook is None:
        return None
    kinds = set(decorators(node))
    better = "; sglang_platform.core's registry, of the same names, does it right"
    if kinds & {"property", "cached_property"}:
        return f"the target is a property, and SGLang's registry makes a method of it{better}"
    if isinstance(node, ast.AsyncFunctionDef) and hook.type is HookType.AFTER:
        return (
            f"the target is async, and SGLang's registry gives the hook its coroutine, not its result{better}"
        )
    inherited = target.key != f"{definition.address.module}.{'.'.join(definition.address.path)}"
    if inherited and not definition.via and kinds & {"classmethod", "staticmethod"}:
        return f"the target is an inherited class method, which SGLang's registry makes a plain one{better}"
    return None


def call_not_taken(wanted: WantedHook, definition: Definition, host: SourceTree) -> str | None:
    """The first call in the host that the target accepts and the hook does not, for a message; None without one."""
    node, hook = definition.node, wanted.hook
    if hook is None or not isinstance(node, FunctionNode) or not isinstance(hook.node, FunctionNode):
        return None
    *owners, name = definition.address.path
    bound = int(bool(owners) and "staticmethod" not in decorators(node))
    first = hook.type.record.given + bound
    offered = hook.node.args
    if len(offered.posonlyargs) + len(offered.args) < first and offered.vararg is None:
        return f"it with {first} arguments more than those in its calls, and the hook has no place for them"
    call = first_not_taken(
        host,
        name,
        signature_of(node.args, bound),
        signature_of(offered, first),
        owners[-1] if owners else None,
    )
    return None if call is None else str(call)
