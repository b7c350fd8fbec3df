"""The changes that a plugin makes to the host: registered hooks, monkey-patches, modules put into `sys.modules`.

Hooks are registered by `@plugin_hook(...)` and `HookRegistry.register(...)`, SGLang's or ours. Monkey-patches are
``module.name = f``, ``Class.method = f``, ``setattr(...)`` and `mock.patch.object`. A change that a helper function
makes with its arguments stands at the line of the call.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from sglang_platform.core.hooks.types import HookType
from sglang_platform.devtools.flow.guards import reach_of
from sglang_platform.devtools.flow.host import HostAnswers
from sglang_platform.devtools.flow.imports import Imports
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    Bound,
    External,
    Function,
    HookDecorator,
    HostObject,
    LineReach,
    Path,
    PluginClass,
    UnknownValue,
)
from sglang_platform.devtools.registrations import StandIn, UnreadPlace, WantedHook, WrittenHook
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.signatures import FunctionNode
from sglang_platform.devtools.source.values import dotted, shortened

__all__ = ["HostChanges"]

_LONGEST = 60


class _Call(NamedTuple):
    """A function that is followed, and its call; None for a call by the host."""

    function: Function
    node: ast.expr | None
    path: Path


class HostChanges(Imports):
    """Records changes of the host, each with the best reach of its line."""

    def __init__(self, host: HostAnswers) -> None:
        super().__init__(host)
        self.hooks: dict[WantedHook, LineReach] = {}
        self.stand_ins: dict[StandIn, LineReach] = {}
        self.unread_changes: dict[UnreadPlace, LineReach] = {}
        self.calls: list[_Call] = []
        self._at: tuple[ast.expr, Path] | None = None

    def call(self, function: Function, args: list[Any] | None, words: dict[str, Any], path: Path) -> Any:
        node, around = self._at if self._at is not None and args is not None else (None, path)
        self.calls.append(_Call(function, node, around))
        try:
            return super().call(function, args, words, path)
        finally:
            self.calls.pop()

    def result(self, node: ast.expr, called: Any, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        self._at = node, path
        name = _full(called) or ".".join(dotted(node.func) or () if isinstance(node, ast.Call) else ())
        last = name.rpartition(".")[2]
        if isinstance(called, HookDecorator) and args:
            self.escape(args[0])
            self._register(
                called.node, called.args, called.words, "type", args[0], None, path, called.on_host
            )
            return args[0]
        if isinstance(node, ast.Call) and not isinstance(called, PluginClass):
            on_host = self.host.is_hosts(name)
            if last == "plugin_hook":
                return HookDecorator(node, args, words, on_host)
            if name.split(".")[-2:] == ["HookRegistry", "register"]:
                hook = args[1] if len(args) > 1 else words.get("hook", UNKNOWN)
                expr = next((one.value for one in node.keywords if one.arg == "hook"), None)
                expr = node.args[1] if len(node.args) > 1 else expr
                rest = [*args[:1], *args[2:]]
                self._register(node, rest, words, "hook_type", hook, expr, path, on_host)
            elif name == "builtins.setattr" or name.endswith("patch.object"):
                self._set(node, args, path)
            elif name == "sys.modules.setdefault" and args:
                self._stand_in(args[0], node, path)
            elif name == "sys.modules.update":
                self._note_unread(node, [node], path, is_write=True)
        return super().result(node, called, args, words, path)

    def part_of(self, owner: Any, name: str, path: Path) -> Any:
        if _full(owner).rpartition(".")[2] == "HookType" and name in HookType.__members__:
            return HookType[name]
        return super().part_of(owner, name, path)

    def bind(self, target: ast.expr, value: Any, path: Path) -> None:
        match target:
            case ast.Attribute(value=inner, attr=name):
                part = _part(self.value(inner, path))
                if part is not None:
                    self._write(f"{part.full}.{name}", value, target, path)
            case ast.Subscript(value=table, slice=key) if _full(self.value(table, path)) == "sys.modules":
                self._stand_in(self.value(key, path), target, path)
        super().bind(target, value, path)

    def _register(
        self,
        node: ast.Call,
        args: list[Any],
        words: dict[str, Any],
        type_word: str,
        hook: Any,
        expr: ast.expr | None,
        path: Path,
        on_host: bool,
    ) -> None:
        """`args`: the target and the type, where given by position."""
        bindings = path.scope.module.scope.names.get("HookRegistry", ())
        if any(isinstance(one.node, ast.ClassDef) and not one.fallback for one in bindings):
            return  # the framework itself, or a stand-in for it
        target = args[0] if args else words.get("target", UNKNOWN)
        kind = _type_of(args[1] if len(args) > 1 else words.get(type_word, HookType.AFTER))
        told = [one for one in (*node.args, *(word.value for word in node.keywords)) if one is not expr]
        if not isinstance(target, str) or kind is None:
            self._note_unread(node, told, path)
            return
        definition = _definition(hook)
        named = expr is None or isinstance(expr, ast.Name)
        label = getattr(definition, "name", "") if named else ""
        shown = expr if expr is not None else definition
        label = label or (ast.unparse(shown) if shown is not None else "?")
        written = WrittenHook(kind, label, definition)
        place, required = self._place(node, told, path), words.get("required") is not False
        self._note(self.hooks, WantedHook(target, written, required, place, None, on_host), path)

    def _set(self, node: ast.Call, args: list[Any], path: Path) -> None:
        """``setattr(owner, name, value)``, ``mock.patch.object(owner, name, value)``."""
        if len(args) < 2:
            return
        part, owner = _part(args[0]), dotted(node.args[0])
        # A parameter may be a part of the host in some call; an unknown name may be set on anything.
        may_be = isinstance(args[0], UnknownValue) and owner is not None and self._is_given(owner[0])
        if part is not None and isinstance(args[1], str):
            self._write(f"{part.full}.{args[1]}", args[2] if len(args) > 2 else None, node, path)
        elif part is not None or (
            owner not in (("self",), ("cls",)) and (may_be or not isinstance(args[1], str))
        ):
            self._note_unread(node, list(node.args), path, is_write=True)

    def _is_given(self, name: str) -> bool:
        return bool(self.calls) and name in _parameters(self.calls[-1].function)

    def _write(self, target: str, value: Any, node: ast.expr, path: Path) -> None:
        definition = _definition(value)
        label = "a lambda" if isinstance(definition, ast.Lambda) else getattr(definition, "name", "")
        hook = WrittenHook(HookType.REPLACE, shortened(label or "a value", _LONGEST), definition)
        place = self._place(node, [node], path)
        self._note(self.hooks, WantedHook(target, hook, True, place, None, on_host=True, written=True), path)

    def _stand_in(self, name: Any, node: ast.expr, path: Path) -> None:
        if isinstance(name, str):
            self._note(self.stand_ins, StandIn(name, self._place(node, [node], path)), path)
        else:
            self._note_unread(node, [node], path, is_write=True)

    def _note_unread(
        self, node: ast.expr, told: list[ast.expr], path: Path, *, is_write: bool = False
    ) -> None:
        if not is_write or self.host.name.encode() in self.tree.text(path.scope.module.name):
            self._note(self.unread_changes, UnreadPlace(self._place(node, told, path), is_write), path)

    def _note(self, table: dict[Any, LineReach], change: Any, path: Path) -> None:
        reach = reach_of(path.unsure, path.frames, ImportError)
        table[change] = min(table.get(change, reach), reach, key=lambda one: one.rank)

    def _place(self, node: ast.expr, told: list[ast.expr], path: Path) -> str:
        """The line of a change: of the call of the helper, as long as `told` depends on the helper's arguments."""
        module: Module = path.scope.module
        for one in reversed(self.calls):
            if one.node is None or not _depends(told, one.function):
                break
            node, module = one.node, one.path.scope.module
            told = [node]
        return f"{module.path}:{getattr(node, 'lineno', 1)}"


def _full(value: Any) -> str:
    """The full name of a part of the host or of another distribution, or ``Class.method`` of the plugin's own."""
    match value:
        case External(full=full) | HostObject(full=full) | UnknownValue(part=HostObject(full=full)):
            return full
        case Bound(name=Function() as function):
            return _full(function)
        case Function(owner=owner, label=label):
            return label if owner is None else f"{owner.node.name}.{label}"
        case Bound(owner=External(full=full), name=name):
            return f"{full}.{name}"
        case PluginClass(node=node):
            return node.name
    return ""


def _part(value: Any) -> HostObject | None:
    return value if isinstance(value, HostObject) else getattr(value, "part", None)


def _type_of(value: Any) -> HookType | None:
    """The type of a hook, by whatever name its class was imported."""
    name = _full(value).rpartition(".")[2]
    return value if isinstance(value, HookType) else HookType.__members__.get(name)


def _definition(value: Any) -> FunctionNode | ast.ClassDef | None:
    match value:
        case Bound(name=Function(node=node)) | Function(node=node) | PluginClass(node=node):
            return node
    found = getattr(_part(value), "node", None)
    return found if isinstance(found, FunctionNode | ast.ClassDef) else None


def _parameters(function: Function) -> set[str]:
    return {one.arg for one in ast.walk(function.node.args) if isinstance(one, ast.arg)}


def _depends(expressions: list[ast.expr], function: Function) -> bool:
    """True if an expression of a function is made of its parameters."""
    names = {one.id for each in expressions for one in ast.walk(each) if isinstance(one, ast.Name)}
    made = [
        one
        for one in ast.walk(function.node)
        if isinstance(one, ast.Assign | ast.AnnAssign | ast.For | ast.comprehension)
    ]
    before: set[str] = set()
    while before != names:
        before = set(names)
        for one in made:
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            if names & {part.id for each in targets for part in ast.walk(each) if isinstance(part, ast.Name)}:
                value = one.iter if isinstance(one, ast.For | ast.comprehension) else one.value
                names |= (
                    {part.id for part in ast.walk(value) if isinstance(part, ast.Name)} if value else set()
                )
    return bool(names & (_parameters(function) - {"self", "cls"}))
