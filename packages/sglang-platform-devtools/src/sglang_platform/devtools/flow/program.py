"""The control flow of a whole plugin: its modules, its entry points, and all functions that may be called."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from sglang_platform.devtools.flow.changes import HostChanges
from sglang_platform.devtools.flow.functions import MOST_STATEMENTS
from sglang_platform.devtools.flow.guards import reach_of, survives
from sglang_platform.devtools.flow.host import AnyRelease, Host, HostAnswers
from sglang_platform.devtools.flow.mentions import mentioned, reset, written
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    Fault,
    Function,
    LineReach,
    Namespace,
    Path,
    PluginModule,
    PluginObject,
    Raises,
)
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.namespaces import globals_set_in
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["Failure", "Program"]


class Failure(NamedTuple):
    """A use of a name that the host lacks. `root`: when it is reached, such as ``register() runs``."""

    fault: Fault
    error: type[BaseException]
    reach: LineReach
    root: str = ""

    @property
    def told(self) -> str:
        """What it raises, and when."""
        what = (
            "the import fails" if issubclass(self.error, ImportError) else f"it raises {self.error.__name__}"
        )
        return f"{what} when {self.root}"


class Program(HostChanges):
    """A plugin, evaluated beside one release, or any. `entries`: ``module:function`` of its entry points."""

    def __init__(self, tree: SourceTree, host: Host | None = None, entries: Iterable[str] = ()) -> None:
        super().__init__(HostAnswers(host, written(tree)) if host is not None else AnyRelease())
        self.reset = reset(tree)
        self._mentioned = mentioned(tree)
        self._objects: dict[int, PluginObject] = {}
        self.tree, self._entries = tree, list(entries)
        self._visited: dict[int, set[tuple[str, tuple[Any, ...]]]] = {}
        self._failures: dict[tuple[int, str], Failure] = {}
        self._scopes: dict[str, Namespace] = {}
        self._weakest: dict[str, set[tuple[Any, ...]]] = {}
        self._dead_at = (0, 0)
        self._names: dict[int, set[str]] = {}
        self._dead_names: set[str] = set()
        self._follow()

    @property
    def failures(self) -> list[Failure]:
        return list(self._failures.values())

    def reach(self, node: ast.AST, error: type[BaseException] = ImportError) -> LineReach:
        """Whether a statement, a call or an attribute runs, and whether the plugin handles `error` there."""
        found = [reach_of(unsure, frames, error) for unsure, frames in self._visited.get(id(node), ())]
        if not found and self.count > MOST_STATEMENTS:
            return LineReach("unsure", "the plugin is too large to be followed")
        return min(found, key=lambda one: one.rank, default=LineReach("never"))

    def reach_around(self, module: Module, line: int) -> LineReach:
        """Whether the innermost statement around a line runs."""
        around = [
            one
            for one in module.nodes
            if isinstance(one, ast.stmt) and one.lineno <= line <= (one.end_lineno or one.lineno)
        ]
        return (
            self.reach(max(around, key=lambda one: (one.lineno, one.col_offset))) if around else LineReach()
        )

    def failure(self, node: ast.AST, target: str) -> Failure | None:
        return self._failures.get((id(node), target))

    # The order of things

    def _follow(self) -> None:
        for entry in self._entries:
            module, _, name = entry.partition(":")
            scope = self._imported(module)
            found: Any = scope.names.get(name.partition(".")[0]) if scope is not None and name else None
            if isinstance(found, Function):
                self._later(found, defaults=True)
        waiting = [name for name in self.tree.served() if name not in self._scopes]
        dead = self._unreached_modules()
        for name in waiting:
            if name not in self._scopes and name not in dead:
                self._imported(name)
        self._follow_functions()

    def _imported(self, name: str) -> Namespace | None:
        """A module as a process imports it that names nothing else of the plugin."""
        module = self.tree.module(name)
        return self.module(name, Path(Namespace(module), root=f"{name} is imported")) if module else None

    def _follow_functions(self) -> None:
        """Call what nothing has called yet: first what nothing names, and never what only unreached code names."""
        skipped: set[int] = set()
        while waits := [
            one for one in self.made if id(one.node) not in self.called and id(one.node) not in skipped
        ]:
            unreached = [one for one in waits if self._is_unreached(one)]
            for function in unreached:  # first, since what only these call is not called either
                skipped.add(id(function.node))
                body = function.node.body
                self.unreached += body if isinstance(body, list) else [body]
            if unreached:
                continue
            roots = [one for one in waits if not self._mentioned & _names_of(one)]
            known = len(self.unreached)
            for function in roots or waits:
                if id(function.node) not in self.called:
                    self._later(function)
                if not roots and len(self.unreached) > known:
                    break  # some of the others may be unreached now

    def _later(self, function: Function, *, defaults: bool = False) -> None:
        """A call by the host, with arguments that the source does not show."""
        path = Path(
            function.scope,
            self.unclear.get(id(function.node), function.unsure),
            root=f"{function.label}() runs",
        )
        if id(function.node) in self.contained - self.escaped:
            path = path._replace(unsure=path.unsure or "something calls it")
        args: list[Any] | None = [] if defaults else None
        with contextlib.suppress(Raises):
            self.escape(self.call(function, args, self._owner_of(function, path), path))

    def _owner_of(self, function: Function, path: Path) -> dict[str, Any]:
        """`self` or `cls` of a method, by the name of the parameter."""
        first = [*function.node.args.posonlyargs, *function.node.args.args][:1]
        if function.owner is None or not first or function.kind == "staticmethod":
            return {}
        if function.kind == "classmethod":
            return {first[0].arg: function.owner}
        known = self._objects.get(id(function.owner.node))
        if known is None:
            self._objects[id(function.owner.node)] = known = PluginObject(function.owner)
            initial = function.owner.scope.names.get("__init__")
            if isinstance(initial, Function) and initial is not function:
                self.call(initial, None, self._owner_of(initial, path), path)
        return {first[0].arg: known}

    def module(self, name: str, path: Path) -> Namespace | None:
        module = self.tree.module(name)
        if module is None:
            return None
        above = name.rpartition(".")[0]
        if above and self.tree.has(above):
            self.module(above, path)
        frames, scope = path.frames, self._scopes.get(name)
        known = self._weakest.setdefault(name, set())
        if scope is not None and (() in known or frames in known or len(known) > 3):
            return scope
        known.add(frames)
        if scope is None:
            self._scopes[name] = scope = _scope_of(module)
        inside = Path(scope, path.unsure, frames, root=path.root or f"{name} is imported")
        calls, self.calls = self.calls, []
        try:
            found = self.block(module.tree.body, inside)
        except RecursionError:
            self.unread.append((module.path, "its expressions are nested too deeply"))
            return scope
        finally:
            self.calls = calls
        raised = next((one.raised for one in found.ends if one.kind == "raise" and one.raised), None)
        if found.path is None and raised is not None and frames:
            raise raised
        return scope

    def _is_unreached(self, function: Function) -> bool:
        """True for a function that only code that does not run names."""
        node, owner = function.node, function.owner
        if id(node) in self.wrapped and id(node) not in self.unclear:
            return True
        if id(node) in self.escaped or not self.host.is_known:
            return False
        names = self._unreached_names()
        name = getattr(node, "name", "")
        if owner is not None:
            private = name.startswith("_") and not name.endswith("__")
            unused = id(owner.node) not in self.escaped and owner.node.name in names
            return unused or (private and name in names)
        return bool(names & _names_of(function))

    def _unreached_names(self) -> set[str]:
        state = (len(self.unreached), len(self._visited))
        if state != self._dead_at:
            self._dead_at = state
            dead = [one for one in self.unreached if id(one) not in self._visited]
            self._dead_names = set().union(*map(self._names_in, dead))
        return self._dead_names

    def _names_in(self, node: ast.AST) -> set[str]:
        if id(node) not in self._names:
            self._names[id(node)] = {
                str(getattr(one, "id", getattr(one, "attr", getattr(one, "name", ""))))
                for one in ast.walk(node)
                if isinstance(one, ast.Name | ast.Attribute | ast.alias)
            }
        return self._names[id(node)]

    def _unreached_modules(self) -> set[str]:
        """The modules of the plugin that only code that does not run imports."""
        found = set()
        for one in self.unreached if self.host.is_known else ():
            if id(one) in self._visited:
                continue
            for part in ast.walk(one):
                if isinstance(part, ast.ImportFrom):
                    for name in self.tree.served():
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
                        for name in self.tree.served()
                        if part.value.lstrip(".")
                        and (name == part.value or name.endswith(f".{part.value.lstrip('.')}"))
                    }
        return found

    # What the evaluation asks

    def visit(self, node: ast.AST, path: Path) -> None:
        self.count += 1
        self._visited.setdefault(id(node), set()).add((path.unsure, path.frames))

    def survives(self, error: type[BaseException], path: Path) -> bool | None:
        return survives(path.frames, error)

    def fail(self, fault: Fault, error: type[BaseException], path: Path) -> None:
        reach = reach_of(path.unsure, path.frames, error)
        key = (id(fault.node), fault.target)
        known = self._failures.get(key)
        if known is None or reach.rank < known.reach.rank:
            self._failures[key] = Failure(fault, error, reach, path.root)
        if reach.kind == "survived":
            raise Raises(error, fault)

    def member(self, module: str, name: str, path: Path) -> Any:
        scope = self.module(module, path)
        if scope is not None and name in scope.names:
            return scope.names[name]
        return PluginModule(f"{module}.{name}") if self.tree.has(f"{module}.{name}") else UNKNOWN


def _scope_of(module: Module) -> Namespace:
    functions = (one for one in module.nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    elsewhere = frozenset(name for one in functions for name in globals_set_in(one))
    return Namespace(module, {"__name__": UNKNOWN, "__package__": module.package}, set_elsewhere=elsewhere)


def _names_of(function: Function) -> set[str]:
    return {getattr(function.node, "name", "lambda"), *function.names}
