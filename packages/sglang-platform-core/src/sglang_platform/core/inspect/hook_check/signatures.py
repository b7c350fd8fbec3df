"""Signatures as the source writes them: of a target in two releases, and of a hook beside its target.

Whether a hook fits is asked of the engine itself: both are rebuilt as empty functions with the written parameters, and
those are given to the check that the engine makes when it applies a hook.
"""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.patching.place import Place
from sglang_platform.core.hooks.patching.site import Site
from sglang_platform.core.hooks.registration import HookType, Registration
from sglang_platform.core.inspect.hook_check.lookup import Definition

__all__ = ["WrittenHook", "difference", "misfit"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_WRAPPERS = {"property": property, "classmethod": classmethod, "staticmethod": staticmethod}


class WrittenHook(NamedTuple):
    """A hook as a plugin's source registers it. `node` is None where the source does not show the function."""

    type: HookType
    name: str
    node: FunctionNode | ast.ClassDef | None


def difference(old: Definition, new: Definition) -> str | None:
    """What a caller or a hook written for `old` has to know about `new`; None if both are written alike."""
    before, after = old.node, new.node
    if before is None or after is None:
        return None
    was, now = _kind(before), _kind(after)
    if was is not None and now is not None and was != now:
        return f"it was {was}, and is {now}"
    if isinstance(before, FunctionNode) and isinstance(after, FunctionNode):
        return _parameters_differ(before.args, after.args)
    return None


def misfit(target: Definition, hook: WrittenHook) -> tuple[str | None, list[str]]:
    """Why the engine would refuse the hook (None: it would not), and the arguments it cannot take by name."""
    node = target.node
    if hook.node is None or not isinstance(node, FunctionNode | ast.ClassDef):
        return None, []
    name = target.address.path[-1]
    module = ModuleType(target.address.module)
    owner: Any = type("Owner", (), {}) if len(target.address.path) > 1 else module
    raw = _rebuilt(node)
    wrapper = next((one for one in _decorators(node) if one in _WRAPPERS), None)
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
    body = "yield" if _yields(node) else "pass"
    names: dict[str, Any] = {}
    exec(f"{kind} {name}({ast.unparse(_bare(node.args))}): {body}", names)
    return names[name]


def _bare(arguments: ast.arguments) -> ast.arguments:
    """The same parameters without annotations, each default None."""

    def bare(one: ast.arg) -> ast.arg:
        return ast.arg(arg=one.arg)

    none = ast.Constant(None)
    return ast.arguments(
        posonlyargs=[bare(one) for one in arguments.posonlyargs],
        args=[bare(one) for one in arguments.args],
        vararg=bare(arguments.vararg) if arguments.vararg else None,
        kwonlyargs=[bare(one) for one in arguments.kwonlyargs],
        kw_defaults=[None if one is None else none for one in arguments.kw_defaults],
        kwarg=bare(arguments.kwarg) if arguments.kwarg else None,
        defaults=[none for _ in arguments.defaults],
    )


def _parameters_differ(old: ast.arguments, new: ast.arguments) -> str | None:
    before, after = _described(old), _described(new)
    if list(before.items()) == list(after.items()):
        return None
    news = [
        after[name] + (", which it requires" if required else "") for name, required in _added(before, new)
    ]
    gone = [name for name in before if name not in after]
    changed = [
        f"{before[name]} is {after[name]}" for name in before if after.get(name, before[name]) != before[name]
    ]
    parts = [f"it takes {', '.join(news)}"] if news else []
    parts += [f"it no longer takes {', '.join(gone)}"] if gone else []
    parts += changed
    return "; ".join(parts) if parts else f"the order of its parameters is {', '.join(after)}"


def _described(arguments: ast.arguments) -> dict[str, str]:
    """Each parameter in its order as it would be written: ``x``, ``x=...``, ``*args``, ``keyword x``."""
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    found = {}
    for i, one in enumerate(positional):
        found[one.arg] = one.arg + ("=..." if i >= first_default else "")
    for one in arguments.posonlyargs:
        found[one.arg] += " (by position only)"
    if arguments.vararg:
        found["*" + arguments.vararg.arg] = "*" + arguments.vararg.arg
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[one.arg] = f"{one.arg}{'' if default is None else '=...'} (by name only)"
    if arguments.kwarg:
        found["**" + arguments.kwarg.arg] = "**" + arguments.kwarg.arg
    return found


def _added(before: dict[str, str], new: ast.arguments) -> list[tuple[str, bool]]:
    return [
        (name, "=..." not in text and not name.startswith("*"))
        for name, text in _described(new).items()
        if name not in before
    ]


def _kind(node: ast.AST) -> str | None:
    """What kind of thing it is, in words; None for a value, whose kind only running would tell."""
    if isinstance(node, ast.ClassDef):
        return "a class"
    if not isinstance(node, FunctionNode):
        return None
    decorators = _decorators(node)
    for name, words in (
        ("property", "a property"),
        ("cached_property", "a property"),
        ("classmethod", "a class method"),
        ("staticmethod", "a static method"),
    ):
        if name in decorators:
            return words
    generator = "generator" if _yields(node) else "function"
    return f"an async {generator}" if isinstance(node, ast.AsyncFunctionDef) else f"a {generator}"


def _decorators(node: ast.AST) -> list[str]:
    """The last names of the decorators, without their arguments."""
    found = getattr(node, "decorator_list", [])
    bare = [one.func if isinstance(one, ast.Call) else one for one in found]
    return [ast.unparse(one).rpartition(".")[2] for one in bare]


def _yields(node: FunctionNode) -> bool:
    """Does the function itself yield, functions and classes inside it aside?"""
    waiting: list[ast.AST] = list(node.body) if isinstance(node.body, list) else [node.body]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(one, FunctionNode | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(one))
    return False
