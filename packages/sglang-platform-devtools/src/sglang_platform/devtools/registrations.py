"""The hooks that a plugin registers, read from its source: nothing of the plugin is imported or run.

Found are `@plugin_hook(...)` and `HookRegistry.register(...)`, SGLang's or ours, with a target that the source shows:
a string, a constant, an f-string of those, the variable of a loop over a literal, or a parameter of a function of the
plugin that is called with one of these. All others are listed by place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sglang_platform.core.hooks.types import HookType
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.conditions import blocks_that_run
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.signatures import FunctionNode
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import Unreadable, dotted, evaluate, rounds

__all__ = ["PluginHooks", "WantedHook", "WrittenHook", "parameters_of", "read_hooks"]


class WrittenHook(NamedTuple):
    """A hook as a plugin's source registers it. `node` is None where the source does not show the function."""

    type: HookType
    name: str
    node: FunctionNode | ast.ClassDef | None


class WantedHook(NamedTuple):
    """A target to check, with what is known of the hook."""

    target: str
    hook: WrittenHook | None = None
    required: bool = True
    where: str | None = None
    """Where the hook is registered: ``my_plugin/hooks.py:12``."""
    plugin: str | None = None
    on_host: bool = False
    """On SGLang's own registry, or written into SGLang's module: nothing looks whether it fits."""
    written: bool = False
    """Past any registry: ``module.name = function``."""


class PluginHooks(NamedTuple):
    """`unread`: places with a registration whose target the source does not show, as ``file:line``."""

    hooks: tuple[WantedHook, ...]
    unread: tuple[str, ...]


Names = Mapping[str, Any]
"""What a name stands for here: a value, a syntax tree still to be read, or _UNKNOWN."""

_UNKNOWN = object()
_DEEPEST = 5
"""How many functions that register what they are given may stand in one another."""
_WORDS = re.compile(rb"plugin_hook|HookRegistry|hook_registry")


class _Helper:
    """A function of the plugin that registers what it is given."""

    def __init__(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names, unread: list[str], reader: _Reader
    ):
        self.node, self.names, self.unread, self.reader = node, names, unread, reader
        self.calls = 0


Helpers = dict[Address, _Helper]


def read_hooks(source: SourceTree, plugin: str | None = None) -> PluginHooks:
    """All registrations in the sources, tests left out. A file that cannot be parsed is listed as unread."""
    hooks: list[WantedHook] = []
    unread: list[str] = []
    lookup = Lookup(source, Lookup(Environment()))
    helpers: Helpers = {}
    found = [name for name in source.served() if _WORDS.search(source.text(name))]
    for name in found:  # first, so that a helper is known wherever it is called
        module = source.module(name)
        if module is None:
            unread.append(f"{source.path(name)} (it cannot be parsed)")
        elif _registers(module):
            _Reader(module, lookup, plugin, helpers).block(module.tree.body, {})
    called = re.compile("|".join(re.escape(one.path[-1]) for one in helpers) or "(?!)")
    for name in source.served():
        module = (
            source.module(name)
            if name in found or called.search(source.text(name).decode(errors="replace"))
            else None
        )
        if module is not None and (_registers(module) or name not in found):
            reader = _Reader(module, lookup, plugin, helpers)
            reader.block(module.tree.body, {})
            hooks += reader.hooks
            unread += reader.unread
    unread += [place for one in helpers.values() if not one.calls for place in one.unread]
    return PluginHooks(tuple(dict.fromkeys(hooks)), tuple(dict.fromkeys(unread)))


def _registers(module: Module) -> bool:
    """Does it register hooks? The framework itself does not; a stand-in where that cannot be imported is none."""
    bindings = module.scope.names.get("HookRegistry", ())
    return not any(isinstance(one.node, ast.ClassDef) and not one.fallback for one in bindings)


class _Reader:
    """Goes through one module with the names whose values it knows: constants, local functions, loop variables."""

    def __init__(self, module: Module, lookup: Lookup, plugin: str | None, helpers: Helpers) -> None:
        self.hooks: list[WantedHook] = []
        self.unread: list[str] = []
        self._module, self._lookup, self._plugin, self._helpers = module, lookup, plugin, helpers
        self._depth = 0
        self._imported = ImportedNames(module.tree, module.package)

    def block(self, body: Iterable[ast.stmt], names: Names) -> dict[str, Any]:
        """Read statements in order; gives the names that are known after them."""
        known = dict(names)
        for node in body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._decorated(node, known)
                    known[node.name] = node
                    parameters = {
                        one.arg: _UNKNOWN for one in ast.walk(node.args) if isinstance(one, ast.arg)
                    }
                    self._function(node, {**known, **parameters})
                case ast.ClassDef():
                    self._decorated(node, known)
                    known[node.name] = node
                    self.block(node.body, known)
                case ast.For():
                    self._calls_in(node.iter, known)
                    for variables in self._rounds(node, known):
                        self.block(node.body, {**known, **variables})
                    known = self.block(node.orelse, known)
                case ast.If():
                    self._calls_in(node.test, known)
                    known = self.block(blocks_that_run(node), known)
                case _:
                    known = self._other(node, known)
        return known

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: dict[str, Any]) -> None:
        """Read a body with unknown parameters. What these leave unread is read at each call of the function."""
        before = len(self.unread)
        self.block(node.body, names)
        unread = self.unread[before:]
        if unread and parameters_of(node):
            del self.unread[before:]
            self._helpers.setdefault(
                Address(self._module.name, (node.name,)), _Helper(node, names, unread, self)
            )

    def _helped(self, call: ast.Call, names: Names) -> None:
        """A call of a function that registers what it is given."""
        parts = dotted(call.func) or ("",)
        answer = self._lookup.find(Address(self._module.name, parts))
        address = answer.address if isinstance(answer, Definition) else Address(self._module.name, parts[-1:])
        helper = self._helpers.get(address)
        if helper is None or self._depth > _DEEPEST:
            return
        values: dict[str, Any] = {}
        arguments, own = helper.node.args, parameters_of(helper.node)
        shift = int(own[:1] in (["self"], ["cls"]))
        for default, name in zip(reversed(arguments.defaults), reversed(own), strict=False):
            values[name] = default
        for only, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            values.update({only.arg: value} if value is not None else {})
        for name, node in zip(own[shift:], call.args, strict=False):
            values[name] = self._passed(node, names)
        for word in call.keywords:
            values.update({word.arg: self._passed(word.value, names)} if word.arg else {})
        reader = _Reader(helper.reader._module, self._lookup, self._plugin, self._helpers)
        reader._depth = self._depth + 1
        reader.block(helper.node.body, {**helper.names, **values})
        helper.calls += 1
        place = f"{self._module.path}:{call.lineno}"
        self.hooks += [one._replace(where=place) for one in reader.hooks]
        self.unread += [place] * bool(reader.unread)

    def _passed(self, node: ast.expr, names: Names) -> Any:
        """What an argument is for the function that gets it: a value, or the function or class that it names."""
        try:
            value = self._value(node, names)
        except Unreadable:
            return self._hook(node, names)[1] or _UNKNOWN
        return (
            value if isinstance(value, HookType) else ast.Constant(value) if isinstance(value, str) else value
        )

    def _other(self, node: ast.stmt, known: dict[str, Any]) -> dict[str, Any]:
        """A statement that holds expressions, blocks, or both."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            known = {**known, node.targets[0].id: node.value}
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                known = self.block([part], known)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                known = self.block(part.body, known)
            else:
                self._calls_in(part, known)
        return known

    def _rounds(self, loop: ast.For, names: Names) -> list[dict[str, Any]]:
        """What the loop variables are in each round; unknown, in one round, where the source does not tell."""
        try:
            return list(rounds(loop, lambda node: self._value(node, names)))
        except Unreadable:
            return [{one.id: _UNKNOWN for one in ast.walk(loop.target) if isinstance(one, ast.Name)}]

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, names: Names) -> None:
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and self._called(decorator) == "plugin_hook":
                self._register(decorator, _argument(decorator, 1, "type"), node, names)

    def _calls_in(self, root: ast.AST, names: Names) -> None:
        for node in ast.walk(root):
            if not isinstance(node, ast.Call):
                continue
            if self._called(node, names) == "HookRegistry.register":
                self._register(node, _argument(node, 2, "hook_type"), _argument(node, 1, "hook"), names)
            elif isinstance(node.func, ast.Call) and self._called(node.func) == "plugin_hook" and node.args:
                self._register(node.func, _argument(node.func, 1, "type"), node.args[0], names)
            else:
                self._helped(node, names)

    def _called(self, call: ast.Call, names: Names | None = None) -> str:
        """The function's own name, however it was imported; with its class, for `register`."""
        parts = dotted(call.func)
        if parts is None:
            return ""
        alias = (names or {}).get(parts[0])
        if isinstance(alias, ast.Attribute):  # register = HookRegistry.register
            parts = (*(dotted(alias) or ()), *parts[1:]) or parts
        whole = (self._imported.meaning(parts) or ".".join(parts)).split(".")
        return ".".join(whole[-2:] if whole[-1] == "register" else whole[-1:])

    def _register(self, call: ast.Call, type_: ast.expr | None, hook: ast.AST | None, names: Names) -> None:
        place = f"{self._module.path}:{call.lineno}"
        try:
            target = self._value(_argument(call, 0, "target"), names)
            kind = HookType.AFTER if type_ is None else self._value(type_, names)
        except Unreadable:
            target = kind = None
        if not isinstance(target, str) or not isinstance(kind, HookType):
            self.unread.append(place)
            return
        written = WrittenHook(kind, *self._hook(hook, names))
        required = _argument(call, None, "required")
        optional = isinstance(required, ast.Constant) and required.value is False
        self.hooks.append(WantedHook(target, written, not optional, place, self._plugin, self._on_host(call)))

    def _on_host(self, call: ast.Call) -> bool:
        """Is it SGLang's registry, through whatever module of the plugin it was imported?"""
        first = (dotted(call.func) or ("",))[:1]
        answer = self._lookup.find(Address(self._module.name, first))
        named = (
            answer.address.module if isinstance(answer, Definition) else self._imported.meaning(first) or ""
        )
        if named == self._module.name:  # the name is of an import that cannot be read here
            named = self._imported.meaning(first) or named
        return named.partition(".")[0] == "sglang"

    def _hook(self, node: ast.AST | None, names: Names) -> tuple[str, FunctionNode | ast.ClassDef | None]:
        """The hook's name, and its definition where the source shows it."""
        label = getattr(node, "name", None) or (ast.unparse(node) if isinstance(node, ast.expr) else "?")
        parts = dotted(node) if isinstance(node, ast.expr) else None
        found: Any = node
        if parts is not None and parts[0] in names:
            found = names[parts[0]]
            for part in parts[1:]:
                inner = self._module.class_scope(found).nodes(part) if isinstance(found, ast.ClassDef) else []
                found = inner[-1] if inner else None
        elif parts is not None:
            answer = self._lookup.find(Address(self._module.name, parts))
            found = answer.node if isinstance(answer, Definition) else None
        if (
            isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and parts is not None
            and len(parts) == 1
        ):
            label = found.name
        return label, found if isinstance(found, FunctionNode | ast.ClassDef) else None

    def _value(self, node: ast.expr | None, names: Names) -> Any:
        """The value of an expression. Raises Unreadable where the source does not show it."""
        return evaluate(node, lambda name: self._of_name(name, names), _hook_type)

    def _of_name(self, name: str, names: Names) -> Any:
        if name not in names:
            found = self._lookup.find(Address(self._module.name, (name,)))
            if isinstance(found, Definition) and len(found.nodes) == 1:
                node = found.nodes[0]
                return self._value(node, {name: _UNKNOWN}) if isinstance(node, ast.expr) else node
            raise Unreadable
        value = names[name]
        if value is _UNKNOWN:
            raise Unreadable
        if isinstance(value, ast.expr):
            return self._value(value, {**names, name: _UNKNOWN})
        return value


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of the parameters that take a position."""
    return [one.arg for one in (*node.args.posonlyargs, *node.args.args)]


def _hook_type(node: ast.Attribute) -> HookType:
    """``HookType.BEFORE``, by whatever name the class was imported."""
    if node.attr in HookType.__members__:
        return HookType[node.attr]
    raise Unreadable


def _argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    if position is not None and position < len(call.args):
        return call.args[position]
    return next((one.value for one in call.keywords if one.arg == name), None)
