"""What a stack of hooks must do, written plainly: one wrapper per hook, as the onion is defined."""

from __future__ import annotations

from sglang_platform.core.hooks.registry import RETURN_NONE, HookType

__all__ = ["nested"]


def nested(base, hooks):
    """A call of `base` with these hooks, pairs of type and function, the first innermost."""
    for type_, hook in hooks:
        base = layer(base, type_, hook)
    return base


def layer(inner, type_, hook):
    def call(*args, **kwargs):
        if type_ is HookType.REPLACE:
            return hook(*args, **kwargs)
        if type_ is HookType.AROUND:
            return hook(inner, *args, **kwargs)
        if type_ is HookType.BEFORE:
            changed = hook(*args, **kwargs)
            if changed is not None:
                args, kwargs = changed
            return inner(*args, **kwargs)
        result = inner(*args, **kwargs)
        changed = hook(result, *args, **kwargs)
        if changed is None:
            return result
        return None if changed is RETURN_NONE else changed

    return call
