"""The hooks and monkey-patches in a plugin's source, read without importing or running it.

Hooks are registered by `@plugin_hook(...)` and `HookRegistry.register(...)`, SGLang's or ours. Monkey-patches are
``module.name = f``, ``Class.method = f``, ``setattr(...)`` and ``sys.modules[...] = ...``. A target is known if it is a
string, a constant, an f-string of those, the variable of a loop over a literal, or a parameter of a plugin function
that is called with one of these. All others are listed by place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from sglang_platform.core.hooks.types import HookType
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.plugin_names import (
    COMPUTED,
    HOST,
    PARAMETER,
    HostPart,
    Names,
    PluginNames,
    is_modules,
)
from sglang_platform.devtools.registrations import (
    StandIn,
    UnreadPlace,
    WantedHook,
    WrittenHook,
    parameters_of,
)
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.conditions import blocks_that_run
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import Unreadable, dotted, rounds

__all__ = ["read_source"]

_REGISTERS = re.compile(rb"plugin_hook|HookRegistry|hook_registry")
_CHANGES = re.compile(_REGISTERS.pattern + rb"|\bsetattr\(|\bsys\.modules\b|\b%s\b" % HOST.encode())
_DEEPEST = 5
"""The deepest nesting of patching helper functions that is followed."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Helper:
    """A plugin function that patches or hooks its arguments."""

    def __init__(self, node: _Function, names: Names, unread: list[UnreadPlace], module: Module) -> None:
        self.node, self.names, self.unread, self.module = node, names, unread, module
        self.calls = 0


Helpers = dict[Address, _Helper]


def read_source(
    source: SourceTree, plugin: str | None
) -> tuple[list[WantedHook], list[StandIn], list[UnreadPlace]]:
    """The hooks and patches, the stand-in modules, and the unreadable places; tests are left out."""
    hooks: list[WantedHook] = []
    stand_ins: list[StandIn] = []
    unread: list[UnreadPlace] = []
    lookup = Lookup(source, Lookup(Environment()))
    helpers: Helpers = {}
    found = [name for name in source.served() if _CHANGES.search(source.text(name))]
    for name in found:  # first, so that a helper is known wherever it is called
        module = source.module(name)
        if module is not None:
            _Reader(module, lookup, plugin, helpers).block(module.tree.body, {})
        elif _REGISTERS.search(source.text(name)):
            unread.append(UnreadPlace(f"{source.path(name)} (it cannot be parsed)"))
    called = re.compile("|".join(re.escape(one.path[-1]) for one in helpers) or "(?!)")
    for name in source.served():
        text = source.text(name)
        module = (
            source.module(name) if name in found or called.search(text.decode(errors="replace")) else None
        )
        if module is not None:
            reader = _Reader(module, lookup, plugin, helpers)
            reader.block(module.tree.body, {})
            hooks += reader.hooks
            stand_ins += reader.stand_ins
            unread += [one for one in reader.unread if not one.is_write or HOST.encode() in text]
    unread += [place for one in helpers.values() if not one.calls for place in one.unread]
    return hooks, stand_ins, unread


class _Reader:
    """Reads one module, tracking known names: constants, functions, loop variables, parts of the host."""

    def __init__(self, module: Module, lookup: Lookup, plugin: str | None, helpers: Helpers) -> None:
        self.hooks: list[WantedHook] = []
        self.stand_ins: list[StandIn] = []
        self.unread: list[UnreadPlace] = []
        self._module, self._lookup, self._plugin, self._helpers = module, lookup, plugin, helpers
        self._depth = 0
        self._names = PluginNames(module, lookup)
        # A module that defines HookRegistry registers nothing; a stub in an import fallback does not count.
        bindings = module.scope.names.get("HookRegistry", ())
        self._is_framework = any(isinstance(one.node, ast.ClassDef) and not one.fallback for one in bindings)

    # Statements

    def block(self, body: Iterable[ast.stmt], names: Names) -> dict[str, Any]:
        """Read statements in order; returns the names that are known after them."""
        known = dict(names)
        for node in body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._decorated(node, known)
                    known[node.name] = node
                    self._function(node, known)
                case ast.ClassDef():
                    self._decorated(node, known)
                    known[node.name] = node
                    self.block(node.body, known)
                case ast.For():
                    self._calls(node.iter, known)
                    for variables in self._rounds(node, known):
                        self.block(node.body, {**known, **variables})
                    known = self.block(node.orelse, known)
                case ast.If():
                    self._calls(node.test, known)
                    known = self.block(blocks_that_run(node), known)
                case _:
                    known = self._other(node, known)
        return known

    def _function(self, node: _Function, names: Names) -> None:
        """Read a body with unknown parameters; if places stay unread, they are read again at each call."""
        before = len(self.unread)
        parameters = {one.arg: PARAMETER for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        inside = {**names, **parameters}
        self.block(node.body, inside)
        unread = self.unread[before:]
        if unread and parameters_of(node):
            del self.unread[before:]
            address = Address(self._module.name, (node.name,))
            self._helpers.setdefault(address, _Helper(node, inside, unread, self._module))

    def _other(self, node: ast.stmt, known: dict[str, Any]) -> dict[str, Any]:
        """A statement that holds expressions, blocks, or both."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assigned(target, value, known)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assigned(target, value, known)
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                known = self.block([part], known)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                known = self.block(part.body, known)
            else:
                self._calls(part, known)
        return known

    def _rounds(self, loop: ast.For, names: Names) -> list[dict[str, Any]]:
        """The loop variables in each iteration; one iteration of unknown values if the source does not show them."""
        try:
            return list(rounds(loop, lambda node: self._names.value(node, names)))
        except Unreadable:
            return [{one.id: COMPUTED for one in ast.walk(loop.target) if isinstance(one, ast.Name)}]

    def _assigned(self, target: ast.expr, value: ast.expr, names: dict[str, Any]) -> None:
        match target:
            case ast.Name(id=name):
                full = self._names.full(value, names)
                names[name] = value if full is None else HostPart(full)
            case ast.Attribute(value=owner, attr=name):
                full = self._names.full(owner, names)
                if full is not None:
                    self._write(f"{full}.{name}", value, target.lineno, names)
            case ast.Subscript(value=table, slice=key) if is_modules(table):
                self._stand_in(key, target.lineno, names, if_absent=False)
            case ast.Tuple(elts=parts):
                given = value.elts if isinstance(value, ast.Tuple) else []
                same = len(given) == len(parts)
                for place, part in enumerate(parts):
                    self._assigned(part, given[place] if same else ast.Constant(None), names)

    def _decorated(self, node: _Function | ast.ClassDef, names: Names) -> None:
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and self._names.called(decorator) == "plugin_hook":
                self._register(decorator, _argument(decorator, 1, "type"), node, names)
            else:
                self._calls(decorator, names)

    # Calls

    def _calls(self, root: ast.AST, names: Names) -> None:
        for node in ast.walk(root):
            if not isinstance(node, ast.Call):
                continue
            name = dotted(node.func) or ("",)
            if self._names.called(node, names) == "HookRegistry.register":
                self._register(node, _argument(node, 2, "hook_type"), _argument(node, 1, "hook"), names)
            elif (
                isinstance(node.func, ast.Call)
                and self._names.called(node.func) == "plugin_hook"
                and node.args
            ):
                self._register(node.func, _argument(node.func, 1, "type"), node.args[0], names)
            elif name == ("setattr",) or name[-2:] == ("patch", "object"):  # mock.patch.object
                self._set(node, names)
            elif name[-3:] == ("sys", "modules", "setdefault") and node.args:
                self._stand_in(node.args[0], node.lineno, names, if_absent=True)
            elif name[-3:] == ("sys", "modules", "update"):
                self._unread_write(node.lineno)
            else:
                self._helped(node, names)

    def _helped(self, call: ast.Call, names: Names) -> None:
        """Read a call of a patching helper: its body again, with the arguments of this call."""
        if not self._helpers:
            return
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
        reader = _Reader(helper.module, self._lookup, self._plugin, self._helpers)
        reader._depth = self._depth + 1
        reader.block(helper.node.body, {**helper.names, **values})
        helper.calls += 1
        place = f"{self._module.path}:{call.lineno}"
        self.hooks += [one._replace(where=place) for one in reader.hooks]
        self.stand_ins += [one._replace(where=place) for one in reader.stand_ins]
        self.unread += [one._replace(place=place) for one in reader.unread]

    def _passed(self, node: ast.expr, names: Names) -> Any:
        """An argument's value in the called function: a part of the host, a value, a function, or unknown."""
        full = self._names.full(node, names)
        if full is not None:
            return HostPart(full)
        try:
            return self._names.value(node, names)
        except Unreadable:
            return self._names.hook(node, names)[1] or PARAMETER

    # Registrations

    def _register(self, call: ast.Call, type_: ast.expr | None, hook: ast.AST | None, names: Names) -> None:
        if self._is_framework:
            return
        place = f"{self._module.path}:{call.lineno}"
        try:
            target = self._names.value(_argument(call, 0, "target"), names)
            kind = HookType.AFTER if type_ is None else self._names.value(type_, names)
        except Unreadable:
            target = kind = None
        if not isinstance(target, str) or not isinstance(kind, HookType):
            self.unread.append(UnreadPlace(place))
            return
        written = WrittenHook(kind, *self._names.hook(hook, names))
        required = _argument(call, None, "required")
        optional = isinstance(required, ast.Constant) and required.value is False
        self.hooks.append(
            WantedHook(target, written, not optional, place, self._plugin, self._names.on_host(call))
        )

    # Monkey-patches

    def _set(self, call: ast.Call, names: Names) -> None:
        """``setattr(owner, name, value)``, ``mock.patch.object(owner, name, value)``."""
        if len(call.args) < 2:
            return
        owner, key = call.args[:2]
        full, text = self._names.full(owner, names), self._names.text(key, names)
        # A parameter may be a part of the host in some call; an unknown attribute name may be set on anything.
        may_be = isinstance(owner, ast.Name) and names.get(owner.id) is PARAMETER
        is_own = dotted(owner) in (("self",), ("cls",))
        if full is not None and text is not None:
            value = call.args[2] if len(call.args) > 2 else ast.Constant(None)
            self._write(f"{full}.{text}", value, call.lineno, names)
        elif full is not None or (not is_own and (may_be or text is None)):
            self._unread_write(call.lineno)

    def _write(self, target: str, value: ast.expr, line: int, names: Names) -> None:
        label, node = self._names.hook(value, names)
        shown = "a lambda" if isinstance(node, ast.Lambda) else label.partition("\n")[0][:60]
        hook = WrittenHook(HookType.REPLACE, shown, node)
        place = f"{self._module.path}:{line}"
        self.hooks.append(WantedHook(target, hook, True, place, self._plugin, on_host=True, written=True))

    def _stand_in(self, key: ast.expr, line: int, names: Names, *, if_absent: bool) -> None:
        name = self._names.text(key, names)
        if name is None:
            self._unread_write(line)
        else:
            self.stand_ins.append(StandIn(name, f"{self._module.path}:{line}", if_absent))

    def _unread_write(self, line: int) -> None:
        self.unread.append(UnreadPlace(f"{self._module.path}:{line}", is_write=True))


def _argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    if position is not None and position < len(call.args):
        return call.args[position]
    return next((one.value for one in call.keywords if one.arg == name), None)
