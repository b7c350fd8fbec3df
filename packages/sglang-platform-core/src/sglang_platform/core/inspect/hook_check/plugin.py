"""The hooks that a plugin registers, read from its source: nothing of the plugin is imported or run.

Found are `@plugin_hook(...)` and `HookRegistry.register(...)`, SGLang's or ours, with a target that the source shows:
a string, a constant, an f-string of those, or the variable of a loop over a literal. All others are listed by place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.hooks.registration import HookType
from sglang_platform.core.hooks.targets import Address, find_module
from sglang_platform.core.inspect.hook_check.check import WantedHook
from sglang_platform.core.inspect.hook_check.lookup import Definition, Lookup
from sglang_platform.core.inspect.hook_check.signatures import FunctionNode, WrittenHook
from sglang_platform.core.inspect.hook_check.sources import HostSource, ModuleSource, definitions, module_name
from sglang_platform.core.inspect.hook_check.uses import Bindings, dotted

__all__ = ["PluginHooks", "open_plugin", "package_of", "read_hooks"]

_LONGEST_LOOP = 1000
Names = Mapping[str, Any]


class PluginHooks(NamedTuple):
    """`unread`: places with a registration whose target the source does not show, as ``file:line``."""

    hooks: tuple[WantedHook, ...]
    unread: tuple[str, ...]


class _Unreadable(Exception):
    """An expression whose value only running would tell."""


def open_plugin(where: str) -> HostSource:
    """The sources of a plugin: a folder, a Python file, or a module or package that could be imported here."""
    path = Path(where)
    if path.is_dir():
        return _from_folder(path.resolve())
    if path.is_file():
        return _files(where, [(path.resolve(), path.stem)])
    found = find_module(where) if all(map(str.isidentifier, where.split("."))) else None
    if found is None:
        raise ConfigurationError(
            f"The plugin {where!r} is not found",
            why="it is no file, no folder, and no module that this environment could import",
            fix="give the folder of its sources, or install it",
        )
    folders = found.search_path
    if folders is not None:
        return _files(where, [pair for folder in folders for pair in _modules(Path(folder), where)])
    origin = found.spec.origin if found.spec is not None else None
    if origin is None or not origin.endswith(".py"):
        raise ConfigurationError(f"The plugin {where!r} has no Python source", why=f"it is {origin}")
    return _files(where, [(Path(origin), where)])


def package_of(module: str) -> str:
    """The package that an entry point's module belongs to: the topmost one that is no namespace."""
    parts = module.split(".")
    for count in range(1, len(parts)):
        found = find_module(".".join(parts[:count]))
        if found is not None and not found.is_namespace:
            return ".".join(parts[:count])
    return module


def read_hooks(source: HostSource, plugin: str | None = None) -> PluginHooks:
    """All registrations in the sources, tests left out. A file that cannot be parsed is listed as unread."""
    hooks: list[WantedHook] = []
    unread: list[str] = []
    lookup = Lookup(source)
    for name in source.served():
        text = source.text(name)
        if b"plugin_hook" not in text and b"HookRegistry" not in text:
            continue
        module = source.module(name)
        if module is None:
            unread.append(f"{source.path(name)} (it cannot be parsed)")
        elif "HookRegistry" not in module.scope.classes:  # else it is the framework itself
            reader = _Reader(module, lookup, source.path(name) or name, plugin)
            reader.block(module.tree.body, {})
            hooks += reader.hooks
            unread += reader.unread
    return PluginHooks(tuple(hooks), tuple(dict.fromkeys(unread)))


class _Reader:
    """Goes through one module with the names whose values it knows: constants, local functions, loop variables."""

    def __init__(self, module: ModuleSource, lookup: Lookup, path: str, plugin: str | None) -> None:
        self.hooks: list[WantedHook] = []
        self.unread: list[str] = []
        self._module, self._lookup, self._path, self._plugin = module, lookup, path, plugin
        self._bindings = Bindings(module)

    def block(self, body: Iterable[ast.stmt], names: Names) -> None:
        known = dict(names)
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._decorated(node, known)
                known[node.name] = node
                parameters = {one.arg: None for one in ast.walk(node.args) if isinstance(one, ast.arg)}
                self.block(node.body, {**known, **parameters})
            elif isinstance(node, ast.ClassDef):
                self._decorated(node, known)
                known[node.name] = node
                self.block(node.body, known)
            elif isinstance(node, ast.For):
                self._loop(node, known)
            else:
                if (
                    isinstance(node, ast.Assign)
                    and len(node.targets) == 1
                    and isinstance(node.targets[0], ast.Name)
                ):
                    known[node.targets[0].id] = node.value
                self._statement(node, known)

    def _statement(self, node: ast.AST, names: Names) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.block([child], names)
            else:
                self._statement(child, names)
        if isinstance(node, ast.Call):
            self._call(node, names)

    def _loop(self, node: ast.For, names: Names) -> None:
        self._statement(node.iter, names)
        try:
            items = list(self._value(node.iter, names))[:_LONGEST_LOOP]
            rounds = [{**names, **_bound(node.target, item)} for item in items]
        except (_Unreadable, TypeError, ValueError):
            rounds = [
                {**names, **{one.id: None for one in ast.walk(node.target) if isinstance(one, ast.Name)}}
            ]
        for known in rounds:
            self.block(node.body, known)
        self.block(node.orelse, names)

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, names: Names) -> None:
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and self._named(decorator.func) == ("plugin_hook",):
                self._register(decorator, _argument(decorator, 1, "type"), node, names)

    def _call(self, node: ast.Call, names: Names) -> None:
        if self._named(node.func) == ("HookRegistry", "register"):
            self._register(node, _argument(node, 2, "hook_type"), _argument(node, 1, "hook"), names)
        elif (
            isinstance(node.func, ast.Call) and self._named(node.func.func) == ("plugin_hook",) and node.args
        ):
            self._register(node.func, _argument(node.func, 1, "type"), node.args[0], names)

    def _named(self, node: ast.expr) -> tuple[str, ...]:
        """The function's own name, however it was imported; with its class, for a method."""
        parts = dotted(node)
        if parts is None:
            return ()
        whole = (self._bindings.meaning(parts) or ".".join(parts)).split(".")
        return tuple(whole[-2:] if whole[-1] == "register" else whole[-1:])

    def _register(self, call: ast.Call, type_: ast.expr | None, hook: ast.AST | None, names: Names) -> None:
        place = f"{self._path}:{call.lineno}"
        target = _argument(call, 0, "target")
        try:
            name = self._value(target, names) if target is not None else None
            kind = HookType.AFTER if type_ is None else self._value(type_, names)
        except _Unreadable:
            name, kind = None, None
        if not isinstance(name, str) or not isinstance(kind, HookType):
            self.unread.append(place)
            return
        written = WrittenHook(kind, *self._hook(hook, names))
        required = _argument(call, None, "required")
        optional = isinstance(required, ast.Constant) and required.value is False
        self.hooks.append(WantedHook(name, written, not optional, place, self._plugin))

    def _hook(self, node: ast.AST | None, names: Names) -> tuple[str, FunctionNode | ast.ClassDef | None]:
        label = getattr(node, "name", None) or (ast.unparse(node) if isinstance(node, ast.expr) else "?")
        parts = dotted(node) if isinstance(node, ast.expr) else None
        if parts is not None and parts[0] not in names:
            found = self._lookup.find(Address(self._module.name, parts))
            node = found.node if isinstance(found, Definition) else None
        elif parts is not None:
            node = names[parts[0]]
            for part in parts[1:]:
                inner = definitions(node.body).get(part) if isinstance(node, ast.ClassDef) else None
                node = inner[-1] if inner else None
        return label, node if isinstance(node, FunctionNode | ast.ClassDef) else None

    def _value(self, node: Any, names: Names) -> Any:
        """The value of a literal expression. Raises _Unreadable for every other."""
        if not isinstance(node, ast.AST):
            return node
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return [self._value(one, names) for one in node.elts]
        if isinstance(node, ast.Dict) and None not in node.keys:
            pairs = zip(node.keys, node.values, strict=True)
            return {self._value(key, names): self._value(value, names) for key, value in pairs}
        if isinstance(node, ast.JoinedStr):
            return "".join(str(self._value(one, names)) for one in node.values)
        if isinstance(node, ast.FormattedValue) and node.format_spec is None:
            return self._value(node.value, names)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._value(node.left, names) + self._value(node.right, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            table = self._value(node.func.value, names)
            if isinstance(table, dict) and node.func.attr in ("items", "values", "keys"):
                return list(getattr(table, node.func.attr)())
        if isinstance(node, ast.Attribute) and node.attr in HookType.__members__:
            return HookType[node.attr]
        if isinstance(node, ast.Name):
            return self._named_value(node.id, names)
        raise _Unreadable

    def _named_value(self, name: str, names: Names) -> Any:
        if name in names:
            if names[name] is None:
                raise _Unreadable
            return self._value(names[name], {key: value for key, value in names.items() if key != name})
        found = self._lookup.find(Address(self._module.name, (name,)))
        if isinstance(found, Definition) and len(found.nodes) == 1 and isinstance(found.nodes[0], ast.expr):
            return self._value(found.nodes[0], {})
        raise _Unreadable


def _bound(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple | ast.List):
        pairs = zip(target.elts, item, strict=True)
        return {name: value for one, part in pairs for name, value in _bound(one, part).items()}
    raise _Unreadable


def _argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    if position is not None and position < len(call.args):
        return call.args[position]
    return next((one.value for one in call.keywords if one.arg == name), None)


def _from_folder(folder: Path) -> HostSource:
    if (folder / "__init__.py").is_file():
        return _files(str(folder), list(_modules(folder, folder.name)))
    root = folder / "src" if (folder / "src").is_dir() else folder
    return _files(str(folder), list(_modules(root, "")))


def _modules(folder: Path, package: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*.py")):
        relative = module_name(path.relative_to(folder).as_posix())
        if relative is not None or path.name == "__init__.py":
            yield path, ".".join(part for part in (package, relative) if part)


def _files(label: str, paths: list[tuple[Path, str]]) -> HostSource:
    return HostSource(label, {str(path): name for path, name in paths}, lambda path: Path(path).read_bytes())
