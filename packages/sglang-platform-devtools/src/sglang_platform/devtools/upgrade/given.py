"""The values that the host passes to plugin functions: the parameters of overrides and of hooks."""

from __future__ import annotations

from sglang_platform.core.hooks.types import HookType
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.signatures import decorators
from sglang_platform.devtools.upgrade.members import Function
from sglang_platform.devtools.upgrade.own import OwnClass
from sglang_platform.devtools.upgrade.types import Instance, Types, Value, parameters

__all__ = ["given_to_function", "given_to_hook", "given_to_method"]


def given_to_method(own: OwnClass, function: Function, types: Types) -> dict[str, Value]:
    """Parameter name -> value, from the method's annotations, else from those of the overridden method."""
    mine = parameters(function)
    static = "staticmethod" in decorators(function)
    names = given_to_function(mine if static else mine[1:], own.module, types)
    above = own.inherited(function.name)
    member = above.find(function.name) if above is not None else None
    theirs = parameters(member.function) if member is not None and member.function is not None else []
    if member is not None and function.name != "__init__":
        by_name = {one.arg: one for one in theirs}
        for place, one in enumerate(mine):
            other = by_name.get(one.arg) or (theirs[place] if place < len(theirs) else None)
            if other is not None and names.get(one.arg) is None and one.annotation is None and place:
                names[one.arg] = types.annotated(other.annotation, member.module) or types.usual(one.arg)
    return names


def given_to_function(arguments: list, module: Module, types: Types) -> dict[str, Value]:  # type: ignore[type-arg]
    """Parameter name -> value, from the annotation, else the usual class of this parameter name in the host."""
    return {
        one.arg: types.annotated(one.annotation, module)
        if one.annotation is not None
        else types.usual(one.arg)
        for one in arguments
    }


def given_to_hook(hook: WantedHook, function: Function, module: Module, types: Types) -> dict[str, Value]:
    """Parameter name -> value for a hook: the target's parameters after the result or the original."""
    names = given_to_function(parameters(function), module, types)
    first = (hook.hook.type if hook.hook is not None else HookType.AFTER).record.first
    full = hook.target.replace(":", ".")
    above, _, last = full.rpartition(".")
    owner = types.host.class_named(above)
    member = owner.find(last) if owner is not None else None
    target, home = (member.function, member.module) if member is not None else types.function_of(full)
    if target is None or home is None:
        return names
    mine, theirs = parameters(function), parameters(target)
    if first is not None and not hook.written and mine:
        if first == "result" and names.get(mine[0].arg) is None:
            names[mine[0].arg] = types.annotated(target.returns, home)
        mine = mine[1:]
    by_name = {one.arg: one for one in theirs}
    for place, one in enumerate(mine):
        other = by_name.get(one.arg) or (theirs[place] if place < len(theirs) else None)
        if other is None or names.get(one.arg) is not None or one.annotation is not None:
            continue
        is_self = other is theirs[0] and "staticmethod" not in decorators(target)
        value = Instance(owner) if is_self and owner is not None else types.annotated(other.annotation, home)
        names[one.arg] = value or types.usual(other.arg)
    return names
