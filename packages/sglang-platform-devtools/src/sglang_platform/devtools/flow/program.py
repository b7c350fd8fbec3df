"""The control flow of a whole plugin: its modules, its entry points, and all functions that may be called."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from sglang_platform.devtools.flow.guards import survives
from sglang_platform.devtools.flow.host import Host, HostAnswers
from sglang_platform.devtools.flow.statements import End, Statements
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    Bound,
    External,
    Fault,
    Function,
    HostPart,
    OwnClass,
    OwnModule,
    Path,
    Raises,
    Scope,
    Unknown,
    joined,
    unknown_of,
)
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.namespaces import globals_set_in
from sglang_platform.devtools.source.scope import imported_module
from sglang_platform.devtools.source.signatures import yields
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["Failure", "Program", "Reach", "follow"]

_DEEPEST = 24
_MOST_STATEMENTS = 400_000


class Reach(NamedTuple):
    """Whether a line runs, and whether the plugin goes on if it fails. `why`: for `unsure`, the condition."""

    kind: Literal["runs", "unsure", "survived", "never"] = "runs"
    why: str = ""


_WORST = ("runs", "unsure", "survived", "never")


class Failure(NamedTuple):
    """A use of a name that the host lacks. `root`: the function or module from which it is reached."""

    fault: Fault
    error: type[BaseException]
    reach: Reach
    root: str = ""


class Program(Statements):
    """One plugin beside one release."""

    def __init__(self, tree: SourceTree, host: Host, entries: Iterable[str] = ()) -> None:
        super().__init__(HostAnswers(host, _written(tree)))
        self._tree, self._entries = tree, list(entries)
        self.pending = []
        self.wrapped, self.unclear = set(), {}
        self._visited: dict[int, set[tuple[str, tuple[Any, ...]]]] = {}
        self._failures: dict[tuple[int, str], Failure] = {}
        self._scopes: dict[str, Scope] = {}
        self._weakest: dict[str, set[tuple[Any, ...]]] = {}
        self._made: list[Function] = []
        self._classes: list[OwnClass] = []
        self._called: set[int] = set()
        self._results: dict[Any, Any] = {}
        self._active: list[int] = []
        self._count = self._dead_count = 0
        self._dead_names: set[str] = set()
        self.unread: list[tuple[str, str]] = []
        self._follow()

    @property
    def failures(self) -> list[Failure]:
        return list(self._failures.values())

    def reach(self, node: ast.AST, error: type[BaseException] = ImportError) -> Reach:
        """Whether a statement, a call or an attribute runs, and whether the plugin handles `error` there."""
        found = [_reach(unsure, frames, error) for unsure, frames in self._visited.get(id(node), ())]
        if not found and self._count > _MOST_STATEMENTS:
            return Reach("unsure", "the plugin is too large to be followed")
        return min(found, key=lambda one: _WORST.index(one.kind), default=Reach("never"))

    def failure(self, node: ast.AST, target: str) -> Failure | None:
        return self._failures.get((id(node), target))

    # The order of things

    def _follow(self) -> None:
        for entry in self._entries:
            module, _, name = entry.partition(":")
            if self._tree.module(module) is None:
                continue
            scope = self._module(module, Path(Scope(self._tree.module(module)), root=module))  # type: ignore[arg-type]
            found: Any = scope.names.get(name.partition(".")[0]) if scope is not None and name else None
            if isinstance(found, Function):
                self._later(found, defaults=True)
        waiting = [name for name in self._tree.served() if name not in self._scopes]
        dead = self._unreached_modules()
        for name in waiting:
            if name not in self._scopes and name not in dead and self._tree.module(name) is not None:
                self._module(name, Path(Scope(self._tree.module(name)), root=name))  # type: ignore[arg-type]
        done = 0
        while done < len(self._made):
            function = self._made[done]
            done += 1
            if id(function.node) not in self._called and not self._is_unreached(function):
                self._later(function)

    def _later(self, function: Function, *, defaults: bool = False) -> None:
        """A call by the host, with arguments that the source does not show."""
        path = Path(
            function.scope, self.unclear.get(id(function.node), function.unsure), root=f"{function.label}()"
        )
        if id(function.node) in self.contained - self.escaped:
            path = path._replace(unsure=path.unsure or "something calls it")
        args: list[Any] | None = [] if defaults else None
        with contextlib.suppress(Raises):
            self.escape(self.call(function, args, {}, path))

    def _module(self, name: str, path: Path) -> Scope | None:
        module = self._tree.module(name)
        if module is None:
            return None
        above = name.rpartition(".")[0]
        if above and self._tree.has(above):
            self._module(above, path)
        frames, scope = path.frames, self._scopes.get(name)
        known = self._weakest.setdefault(name, set())
        if scope is not None and (() in known or frames in known or len(known) > 3):
            return scope
        known.add(frames)
        if scope is None:
            self._scopes[name] = scope = _scope_of(module)
        inside = Path(scope, path.unsure, frames, root=path.root or name)
        try:
            found = self.block(module.tree.body, inside)
        except RecursionError:
            self.unread.append((module.path, "its expressions are nested too deeply"))
            return scope
        raised = next((one.raised for one in found.ends if one.kind == "raise" and one.raised), None)
        if found.path is None and raised is not None and frames:
            raise raised
        return scope

    def _is_unreached(self, function: Function) -> bool:
        """True for a function that only code that does not run names."""
        node, owner = function.node, function.owner
        if id(node) in self.wrapped and id(node) not in self.unclear:
            return True
        if id(node) in self.escaped:
            return False
        names = self._unreached_names()
        name = getattr(node, "name", "")
        if owner is not None:
            private = name.startswith("_") and not name.endswith("__")
            unused = id(owner.node) not in self.escaped and owner.node.name in names
            return unused or (private and name in names)
        return name in names

    def _unreached_names(self) -> set[str]:
        dead = [one for one in self.unreached if id(one) not in self._visited]
        if len(dead) != self._dead_count:
            self._dead_count = len(dead)
            self._dead_names = {
                str(getattr(part, "id", getattr(part, "attr", getattr(part, "name", ""))))
                for one in dead
                for part in ast.walk(one)
                if isinstance(part, ast.Name | ast.Attribute | ast.alias)
            }
        return self._dead_names

    def _unreached_modules(self) -> set[str]:
        """The modules of the plugin that only code that does not run imports."""
        found = set()
        for one in self.unreached:
            if id(one) in self._visited:
                continue
            for part in ast.walk(one):
                if isinstance(part, ast.ImportFrom):
                    for name in self._tree.served():
                        last = name.rpartition(".")[2]
                        if last == (part.module or "").rpartition(".")[2] or last in {
                            a.name for a in part.names
                        }:
                            found.add(name)
                elif isinstance(part, ast.Import):
                    found |= {alias.name for alias in part.names}
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found |= {
                        name
                        for name in self._tree.served()
                        if part.value.lstrip(".")
                        and (name == part.value or name.endswith(f".{part.value.lstrip('.')}"))
                    }
        return found

    # What the evaluation asks

    def visit(self, node: ast.AST, path: Path) -> None:
        self._count += 1
        self._visited.setdefault(id(node), set()).add((path.unsure, path.frames))

    def survives(self, error: type[BaseException], path: Path) -> bool | None:
        return survives(path.frames, error)

    def fail(self, fault: Fault, error: type[BaseException], path: Path) -> None:
        reach = _reach(path.unsure, path.frames, error)
        key = (id(fault.node), fault.target)
        known = self._failures.get(key)
        if known is None or _WORST.index(reach.kind) < _WORST.index(known.reach.kind):
            self._failures[key] = Failure(fault, error, reach, path.root)
        if reach.kind == "survived":
            raise Raises(error, fault)

    def member(self, module: str, name: str, path: Path) -> Any:
        scope = self._module(module, path)
        if scope is not None and name in scope.names:
            return scope.names[name]
        return OwnModule(f"{module}.{name}") if self._tree.has(f"{module}.{name}") else None

    def define(self, cls: OwnClass, path: Path) -> None:
        self._classes.append(cls)

    def function(self, node: Any, path: Path) -> Any:
        name = getattr(node, "name", "lambda")
        made = Function(node, path.scope, name, path.unsure)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        first = len(positional) - len(arguments.defaults)
        for one, default in zip(positional[first:], arguments.defaults, strict=True):
            made.defaults[one.arg] = self.value(default, path)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if default is not None:
                made.defaults[one.arg] = self.value(default, path)
        if not isinstance(node, ast.Lambda) and not _are_texts(path.scope.module):
            for one in ast.walk(arguments):
                if isinstance(one, ast.arg) and one.annotation is not None:
                    self.value(one.annotation, path)
            if node.returns is not None:
                self.value(node.returns, path)
        self._made.append(made)
        return made

    def call(self, function: Function, args: list[Any] | None, words: dict[str, Any], path: Path) -> Any:
        node = function.node
        self._called.add(id(node))
        if id(node) in self._active or len(self._active) > _DEEPEST or self._count > _MOST_STATEMENTS:
            return UNKNOWN
        names = self._arguments(function, args, words)
        key = (id(node), id(function.scope), path.frames, path.unsure, _key(names))
        if key in self._results:
            return self._results[key]
        scope = Scope(function.scope.module, names, function.scope)
        unsure = path.unsure or self.unclear.get(id(node), "")
        inside = Path(scope, unsure, path.frames, root=path.root)
        self._active.append(id(node))
        before, self.pending = self.pending, []
        try:
            found = self._body(function, inside)
        except RecursionError:
            self.unread.append((scope.module.path, "its expressions are nested too deeply"))
            found = UNKNOWN
        finally:
            self._active.pop()
            raised, self.pending = self.pending, before
        self.pending += raised
        self._results[key] = found
        return found

    def _body(self, function: Function, path: Path) -> Any:
        node = function.node
        if isinstance(node, ast.Lambda):
            return self.value(node.body, path)
        found = self.block(node.body, path)
        values = [(one.value, one.unsure) for one in found.ends if one.kind == "return"]
        if found.path is not None:
            values.append((None, found.path.unsure))
        raises = [one for one in found.ends if one.kind == "raise" and one.raised is not None]
        if not values and raises:
            raise raises[0].raised  # type: ignore[misc]
        self.pending += [End("raise", {}, one.unsure, raised=one.raised) for one in raises]
        if yields(node) or isinstance(node, ast.AsyncFunctionDef):
            return UNKNOWN
        result, why = values[0] if values else (None, "")
        for value, other in values[1:]:
            result = joined(result, value, why or other)
        return result

    @staticmethod
    def _arguments(function: Function, args: list[Any] | None, words: dict[str, Any]) -> dict[str, Any]:
        """Parameter name -> value; all unknown for a call by the host (None)."""
        arguments = function.node.args
        positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        every = [*positional, *(one.arg for one in arguments.kwonlyargs)]
        names: dict[str, Any] = dict.fromkeys(every, UNKNOWN)
        for one in (arguments.vararg, arguments.kwarg):
            if one is not None:
                names[one.arg] = UNKNOWN
        if args is None:
            return names
        names |= function.defaults
        names |= dict(zip(positional, args, strict=False))
        if arguments.vararg is not None and len(args) >= len(positional):
            names[arguments.vararg.arg] = tuple(args[len(positional) :])
        names |= {name: value for name, value in words.items() if name in every}
        return names

    # Imports

    def imports(self, node: ast.Import | ast.ImportFrom, path: Path) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._import(node, alias, path)
            return
        source = imported_module(node, path.scope.module.package)
        for alias in node.names:
            found = self._from(node, source, alias.name, path)
            if alias.name != "*":
                self.bind(ast.Name(alias.asname or alias.name, ast.Store()), found, path)

    def _import(self, node: ast.Import, alias: ast.alias, path: Path) -> None:
        name, first = alias.name, alias.name.partition(".")[0]
        found: Any = self.import_module(node, name, path)
        if alias.asname is None:
            found = (
                HostPart(first)
                if self.host.is_hosts(name)
                else OwnModule(first)
                if self._tree.has(first)
                else External(first)
            )
        self.bind(ast.Name(alias.asname or first, ast.Store()), found, path)

    def import_module(self, node: ast.AST, name: str, path: Path) -> Any:
        """A module by its full name."""
        if self.host.is_hosts(name):
            self.host_uses += 1
            found = self.host.module(name)
            if isinstance(found, Absent):
                fault = Fault(path.scope.module, node, name, found.why, found.nearest)
                self.fail(fault, ModuleNotFoundError, path)
                return UNKNOWN
            return found
        if self._tree.has(name):
            self._module(name, path)
            return OwnModule(name)
        return External(name)

    def _from(self, node: ast.ImportFrom, source: str, name: str, path: Path) -> Any:
        if self.host.is_hosts(source):
            self.host_uses += 1
            owner = self.host.module(source)
            if isinstance(owner, Absent):
                target = source if name == "*" else f"{source}.{name}"
                self.fail(
                    Fault(path.scope.module, node, target, owner.why, owner.nearest),
                    ModuleNotFoundError,
                    path,
                )
                return UNKNOWN
            if name == "*":
                return UNKNOWN
            found = self.host.attribute(owner, name)
            if isinstance(found, Absent):
                target = f"{source}.{name}"
                self.fail(Fault(path.scope.module, node, target, found.why, found.nearest), ImportError, path)
                return UNKNOWN
            return found
        if not self._tree.has(source):
            return False if name == "TYPE_CHECKING" else External(f"{source}.{name}")
        if name == "*":
            scope = self._module(source, path)
            if scope is not None and scope is not path.scope:
                path.scope.names |= {key: one for key, one in scope.names.items() if key[:2] != "__"}
            return UNKNOWN
        found = self.member(source, name, path)
        if isinstance(found, OwnModule):
            self._module(found.name, path)
        return UNKNOWN if found is None else found


def follow(tree: SourceTree, host: Host, entries: Iterable[str] = ()) -> Program:
    """Evaluate a plugin beside a release. `entries`: ``module:function`` of its entry points."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 6000))
    try:
        return Program(tree, host, entries)
    finally:
        sys.setrecursionlimit(limit)


def _reach(unsure: str, frames: tuple[Any, ...], error: type[BaseException]) -> Reach:
    handled = survives(frames, error)
    if handled:
        return Reach("survived")
    if handled is None:
        frame = next(one for one in frames if one.handles(error) is None)
        return Reach("unsure", f"whether {frame.what} in line {frame.line} handles the error")
    return Reach("unsure", f"it runs if {unsure}") if unsure else Reach("runs")


def _key(names: dict[str, Any]) -> Any:
    return tuple(
        (name, value if isinstance(value, str | int | bool | HostPart | Unknown | type(None)) else id(value))
        for name, value in names.items()
    )


def _are_texts(module: Module) -> bool:
    """True if annotations are not evaluated."""
    return sys.version_info >= (3, 14) or any(
        isinstance(one, ast.ImportFrom)
        and one.module == "__future__"
        and any(a.name == "annotations" for a in one.names)
        for one in module.tree.body[:10]
    )


def _scope_of(module: Module) -> Scope:
    functions = (one for one in module.nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    elsewhere = frozenset(name for one in functions for name in globals_set_in(one))
    return Scope(module, {"__name__": UNKNOWN, "__package__": module.package}, set_elsewhere=elsewhere)


def _written(tree: SourceTree) -> set[str]:
    """The attributes that the plugin sets on anything, which the host may have only then."""
    found: set[str] = set()
    for name in tree.served():
        module = tree.module(name)
        for node in module.nodes if module is not None else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "setattr"
                and len(node.args) > 1
            ):
                key = node.args[1]
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.add(key.value)
    return found
