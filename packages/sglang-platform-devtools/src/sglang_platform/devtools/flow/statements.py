"""Evaluates a plugin's statements in order, with every way in which they end."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from sglang_platform.devtools.flow.expressions import Expressions
from sglang_platform.devtools.flow.guards import Frame, ends_process, errors_of, leaves
from sglang_platform.devtools.flow.matching import bindings, matches
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    External,
    Function,
    HostPart,
    OwnClass,
    Path,
    Raises,
    Scope,
    Unknown,
    is_neutral,
    merged,
    truth,
    unknown_of,
)
from sglang_platform.devtools.source.conditions import TRY

__all__ = ["End", "Ends", "Statements"]

_MOST_ROUNDS = 100
_DECORATE_ONLY = {"builtins", "sglang_platform", "triton", "numba", "pydantic", "pytest", "click", "typer"}
_TRANSPARENT = {"staticmethod", "classmethod", "property", "cached_property", "contextmanager"}


class End(NamedTuple):
    """One way to leave a block: with the names at that point."""

    kind: Literal["return", "raise", "break", "continue"]
    names: dict[str, Any]
    unsure: str = ""
    value: Any = None
    raised: Raises | None = None


class Ends(NamedTuple):
    """`path`: how it goes on behind the block; None if nothing goes on there."""

    path: Path | None
    ends: list[End]


class Statements(Expressions):
    """Evaluates statements. `pending`: exceptions that a call in the current statement may raise."""

    pending: list[End]

    def block(self, body: Sequence[ast.stmt], path: Path) -> Ends:
        ends: list[End] = []
        for place, node in enumerate(body):
            found = self._statement(node, path)
            ends += found.ends
            if found.path is None:
                self.unreached += body[place + 1 :]
                return Ends(None, ends)
            path = found.path
        return Ends(path, ends)

    def _statement(self, node: ast.stmt, path: Path) -> Ends:
        self.visit(node, path)
        before, self.pending = self.pending, []
        try:
            found = self._execute(node, path)
        except Raises as raised:
            found = Ends(None, [self._end("raise", path, raised=raised)])
        found = Ends(found.path, [*self.pending, *found.ends])
        self.pending = before
        return found

    def _execute(self, node: ast.stmt, path: Path) -> Ends:
        match node:
            case ast.Import() | ast.ImportFrom():
                self.imports(node, path)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                path.scope.names[node.name] = self._decorated(node, self.function(node, path), path)
            case ast.ClassDef():
                self._class(node, path)
            case ast.Assign(targets=targets, value=value):
                found = self.value(value, path)
                for target in targets:
                    self.bind(target, found, path)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.bind(target, self.value(value, path), path)
            case ast.AugAssign(target=target, op=op, value=value):
                self._added(target, op, value, path)
            case ast.Return(value=value):
                found = self.value(value, path) if value is not None else None
                return Ends(None, [self._end("return", path, value=found)])
            case ast.Raise():
                return self._raise(node, path)
            case ast.Break():
                return Ends(None, [self._end("break", path)])
            case ast.Continue():
                return Ends(None, [self._end("continue", path)])
            case ast.Assert(test=test):
                return self._assert(test, path)
            case ast.If(test=test, body=body, orelse=orelse):
                return self._two(self.value(test, path), body, orelse, path)
            case ast.For() | ast.AsyncFor():
                return self._for(node, path)
            case ast.While(test=test, body=body, orelse=orelse):
                found = self.value(test, path)
                after = self._two(UNKNOWN if truth(found) else found, body, [], path, loops=True)
                return self._then(after, orelse)
            case ast.With() | ast.AsyncWith():
                return self._with(node, path)
            case ast.Match():
                return self._match(node, path)
            case ast.Global(names=names):
                path.scope.own_globals.update(names)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        path.scope.names.pop(target.id, None)
            case ast.Expr(value=ast.Call() as call) if ends_process(call):
                return self._thrown(SystemExit, path)
            case _ if isinstance(node, TRY):
                return self._try(node, path)
            case _:
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.expr):
                        self.value(part, path)
        return Ends(path, [])

    def imports(self, node: ast.Import | ast.ImportFrom, path: Path) -> None:
        """Bind the names of an import."""
        raise NotImplementedError

    @staticmethod
    def _end(kind: Any, path: Path, value: Any = None, raised: Raises | None = None) -> End:
        return End(kind, dict(path.scope.names), path.unsure, value, raised)

    def _added(self, target: ast.expr, op: ast.operator, value: ast.expr, path: Path) -> None:
        found = self.value(value, path)
        if isinstance(target, ast.Name):
            whole = ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
            self.bind(
                target, self._sum(whole, self.named(target.id, path.scope, path), op, found, path), path
            )
        else:
            self.bind(target, unknown_of(found), path)

    # Branches

    def _two(
        self,
        test: Any,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        path: Path,
        *,
        loops: bool = False,
    ) -> Ends:
        answer = truth(test)
        if answer is not None:
            self.unreached += orelse if answer else body
            return self.block(body if answer else orelse, path)
        why = unknown_of(test).why
        if path.handled is not None and path.handled.fault is not None:
            why = why or "a condition in the handler"
        before = dict(path.scope.names)
        inside = path._replace(unsure=path.unsure or why)
        first = self.block(body, inside)
        names = path.scope.names
        path.scope.names = dict(before)
        second = self.block(orelse, inside)
        if first.path is not None and second.path is not None:
            path.scope.names = merged(names, path.scope.names, why)
        elif first.path is not None:
            path.scope.names = names
        ends = [*first.ends, *second.ends]
        if loops:
            ends = [one for one in ends if one.kind not in ("break", "continue")]
            return Ends(path, ends)
        goes_on = [one for one in (first.path, second.path) if one is not None]
        if not goes_on:
            return Ends(None, ends)
        return Ends(path if len(goes_on) == 2 else goes_on[0], ends)

    def _then(self, found: Ends, body: Sequence[ast.stmt]) -> Ends:
        if found.path is None or not body:
            return found
        after = self.block(body, found.path)
        return Ends(after.path, [*found.ends, *after.ends])

    def _assert(self, test: ast.expr, path: Path) -> Ends:
        found = self.value(test, path)
        answer = truth(found)
        if answer is False:
            return self._thrown(AssertionError, path)
        if answer is None and unknown_of(found).why:
            return Ends(path._replace(unsure=path.unsure or unknown_of(found).why), [])
        return Ends(path, [])

    def _for(self, node: ast.For | ast.AsyncFor, path: Path) -> Ends:
        over = self.value(node.iter, path)
        if not isinstance(over, list | tuple | dict | str) or len(over) > _MOST_ROUNDS:
            inside = path._replace(unsure=path.unsure or unknown_of(over).why)
            before = dict(path.scope.names)
            self.bind(node.target, unknown_of(over), path)
            found = self.block(node.body, inside)
            path.scope.names = merged(before, path.scope.names)
            ends = [one for one in found.ends if one.kind not in ("break", "continue")]
            return self._then(Ends(path, ends), node.orelse)
        ends = []
        for item in over:
            self.bind(node.target, item, path)
            found = self.block(node.body, path)
            ends += [one for one in found.ends if one.kind in ("return", "raise")]
            jumps = [one for one in found.ends if one.kind in ("break", "continue")]
            if any(one.kind == "break" for one in jumps) and found.path is None:
                path.scope.names = jumps[0].names
                return Ends(path, ends)
            if found.path is None and not jumps:
                return Ends(None, ends)
            if found.path is not None:
                path = found.path._replace(unsure=path.unsure if jumps else found.path.unsure)
            for one in jumps:
                path.scope.names = merged(path.scope.names, one.names, one.unsure)
        return self._then(Ends(path, ends), node.orelse)

    def _match(self, node: ast.Match, path: Path) -> Ends:
        subject = self.value(node.subject, path)
        ends: list[End] = []
        before, after, unsure = dict(path.scope.names), [], path.unsure
        for place, case in enumerate(node.cases):
            path.scope.names = dict(before)
            answer = matches(case.pattern, subject, lambda one: self.value(one, path))
            if answer is False:
                self.unreached += case.body
                continue
            path.scope.names |= bindings(case.pattern, subject)
            if case.guard is not None:
                guard = truth(self.value(case.guard, path))
                answer = None if None in (guard, answer) else bool(answer and guard)
                if guard is False:
                    self.unreached += case.body
                    continue
            why = "" if answer else unknown_of(subject).why
            found = self.block(case.body, path._replace(unsure=unsure or why))
            ends += found.ends
            if found.path is not None:
                after.append(path.scope.names)
            if answer:
                for other in node.cases[place + 1 :]:
                    self.unreached += other.body
                break
        else:
            after.append(before)
        return self._joined(path, after, ends)

    @staticmethod
    def _joined(path: Path, after: list[dict[str, Any]], ends: list[End], why: str = "") -> Ends:
        if not after:
            return Ends(None, ends)
        path.scope.names = after[0]
        for other in after[1:]:
            path.scope.names = merged(path.scope.names, other, why)
        return Ends(path, ends)

    # Exceptions

    def _raise(self, node: ast.Raise, path: Path) -> Ends:
        found = self.value(node.exc, path) if node.exc is not None else None
        if node.exc is None and path.handled is not None:
            return self._thrown(path.handled.error, path)
        errors = errors_of(self.value(node.exc.func, path) if isinstance(node.exc, ast.Call) else found)
        return self._thrown(errors[0] if errors else _base_of(found), path)

    def _thrown(self, error: type[BaseException], path: Path) -> Ends:
        fault = path.handled.fault if path.handled is not None else None
        raised = Raises(error, fault)
        if fault is not None and not self.survives(error, path):
            self.fail(fault, error, path)
        return Ends(None, [self._end("raise", path, raised=raised)])

    def _try(self, node: ast.Try, path: Path) -> Ends:
        types = [
            errors_of(self.value(one.type, path)) if one.type is not None else (BaseException,)
            for one in node.handlers
        ]
        frames = [Frame(one, node.lineno) for one in types]
        if leaves(node.finalbody):
            frames.append(Frame((BaseException,), node.lineno))
        before, uses = dict(path.scope.names), self.host_uses
        body = self.block(node.body, path._replace(frames=(*path.frames, *reversed(frames))))
        asked = self.host_uses > uses
        ends = [one for one in body.ends if one.kind != "raise"]
        raises: list[list[End]] = [[] for _ in node.handlers]
        for one in body.ends:
            if one.kind == "raise" and one.raised is not None:
                place = next(
                    (i for i, f in enumerate(frames[: len(types)]) if f.handles(one.raised.error)), None
                )
                (ends if place is None else raises[place]).append(one)
        after: list[tuple[dict[str, Any], str]] = []
        reached = dict(path.scope.names)
        if body.path is not None:
            other = self.block(node.orelse, body.path._replace(frames=path.frames))
            ends += other.ends
            if other.path is not None:
                after.append((path.scope.names, other.path.unsure))
        else:
            self.unreached += node.orelse
        for handler, entered in zip(node.handlers, raises, strict=True):
            if not entered and asked:
                self.unreached += handler.body
                continue
            path.scope.names = dict(entered[0].names) if entered else merged(before, reached)
            unsure = (
                next((one.unsure for one in entered if not one.unsure), entered[0].unsure)
                if entered
                else path.unsure
            )
            found = self._handle(
                handler, entered[0].raised if entered else None, path._replace(unsure=unsure)
            )
            ends += found.ends
            if found.path is not None:
                after.append((path.scope.names, found.path.unsure))
        told = [
            one
            for one in ends
            if one.raised is not None
            and one.raised.fault is not None
            and not self.survives(one.raised.error, path)
        ]
        if not after and told:  # told already; what follows is read as if it had not failed
            after.append((told[0].names, path.unsure))
        complete = not any(one.unsure != path.unsure for one in ends)
        unsure = path.unsure if complete or not after else next((u for _, u in after if not u), after[0][1])
        joined = self._joined(path._replace(unsure=unsure), [names for names, _ in after], ends)
        return self._finally(node.finalbody, joined, path)

    def _handle(self, handler: ast.ExceptHandler, raised: Raises | None, path: Path) -> Ends:
        if handler.name:
            path.scope.names[handler.name] = UNKNOWN
        found = self.block(handler.body, path._replace(handled=raised or Raises(Exception)))
        return Ends(found.path._replace(handled=path.handled) if found.path else None, found.ends)

    def _finally(self, body: Sequence[ast.stmt], found: Ends, path: Path) -> Ends:
        if not body:
            return found
        last = self.block(body, found.path or path)
        if last.path is None:
            return last  # its own `return` ends all that came before
        return Ends(last.path if found.path is not None else None, [*found.ends, *last.ends])

    def _with(self, node: ast.With | ast.AsyncWith, path: Path) -> Ends:
        frames: list[Frame] = []
        for item in node.items:
            frames += self._frames(item.context_expr, path._replace(frames=(*path.frames, *frames)))
            if item.optional_vars is not None:
                self.bind(item.optional_vars, UNKNOWN, path)
        found = self.block(node.body, path._replace(frames=(*path.frames, *frames)))
        ended = [
            one
            for one in found.ends
            if one.kind == "raise" and one.raised and any(f.handles(one.raised.error) for f in frames)
        ]
        ends = [one for one in found.ends if one not in ended]
        after = [path.scope.names] if found.path is not None else []
        after += [one.names for one in ended]
        unsure = path.unsure if found.path is None or not found.path.unsure or ended else found.path.unsure
        return self._joined(path._replace(unsure=unsure), after, ends)

    def _frames(self, context: ast.expr, path: Path) -> list[Frame]:
        """The handlers that a context manager stands for."""
        found = self.value(context, path)
        if not isinstance(context, ast.Call):
            return []
        called = self.value(context.func, path)
        match called:
            case External(full="contextlib.suppress"):
                args = self._spread(context.args, path)
                return [Frame(errors_of(args), context.lineno, "suppress")]
            case External(full=full):
                if is_neutral(full) and not full.startswith("contextlib.ExitStack"):
                    return []
                return [Frame(None, context.lineno, ast.unparse(context.func))]
            case Function(kind="contextmanager", node=node, scope=scope):
                return self._of_generator(node, path._replace(scope=scope))
            case OwnClass(scope=scope):
                leaver = scope.names.get("__exit__")
                if isinstance(leaver, Function) and not _returns(leaver.node):
                    return []
                return [Frame(None, context.lineno, ast.unparse(context.func))]
            case HostPart() | Unknown(why=""):
                return []
        return [Frame(None, context.lineno, ast.unparse(context.func))] if not truth(found) else []

    def _of_generator(self, node: Any, path: Path) -> list[Frame]:
        """The handlers around the `yield` of a generator."""
        found = []
        for one in ast.walk(node):
            if isinstance(one, TRY) and any(isinstance(x, ast.Yield) for s in one.body for x in ast.walk(s)):
                for handler in one.handlers:
                    again = any(isinstance(x, ast.Raise) for s in handler.body for x in ast.walk(s))
                    types = errors_of(self.value(handler.type, path)) if handler.type else (BaseException,)
                    found.append(
                        Frame(None if again and types else types, one.lineno, getattr(node, "name", ""))
                    )
        managers = [one for one in ast.walk(node) if isinstance(one, ast.With)]
        for manager in managers:
            if any(isinstance(x, ast.Yield) for s in manager.body for x in ast.walk(s)):
                for item in manager.items:
                    found += self._frames(item.context_expr, path)
        return found

    # Definitions

    def _decorated(self, node: Any, function: Any, path: Path) -> Any:
        found = function
        for decorator in reversed(node.decorator_list):
            by = self.value(decorator, path)
            source = self.value(decorator.func, path) if isinstance(decorator, ast.Call) else by
            if isinstance(source, External) and not _calls_what_it_gets(source.full):
                self.unclear[id(node)] = f"{source.full} calls it"
            match by:
                case External(full=full):
                    last = full.rpartition(".")[2]
                    if last in _TRANSPARENT and isinstance(found, Function):
                        found.kind = "property" if last == "cached_property" else last
                case Function() if isinstance(found, Function | OwnClass):
                    self.wrapped.add(id(node))
                    made = self.call(by, [found], {}, path)
                    found = made if not isinstance(made, Unknown) else unknown_of(made)
                    if isinstance(made, Unknown):
                        self.unclear[id(node)] = f"{ast.unparse(decorator)} calls it"
        return found

    wrapped: set[int]
    unclear: dict[int, str]

    def _class(self, node: ast.ClassDef, path: Path) -> None:
        bases = [self.value(one, path) for one in node.bases]
        for word in node.keywords:
            self.value(word.value, path)
        scope = Scope(path.scope.module, {}, path.scope)
        cls = OwnClass(node, scope, bases)
        self.define(cls, path)
        found = self.block(node.body, path._replace(scope=scope))
        for one in scope.names.values():
            if isinstance(one, Function):
                one.owner = one.owner or cls
                one.scope = path.scope if one.scope is scope else one.scope
        if found.path is None and found.ends and found.ends[0].raised is not None:
            raise found.ends[0].raised
        path.scope.names[node.name] = self._decorated(node, cls, path)

    def define(self, cls: OwnClass, path: Path) -> None:
        """Record a class."""


def _calls_what_it_gets(full: str) -> bool:
    """True for a decorator that is known to call the function, or to leave it as it is."""
    return is_neutral(full) or full.partition(".")[0] in _DECORATE_ONLY


def _base_of(value: Any) -> type[BaseException]:
    """The builtin exception that an exception of the plugin derives from."""
    cls = getattr(value, "cls", value)
    for base in getattr(cls, "bases", ()):
        errors = errors_of(base)
        return errors[0] if errors else _base_of(base)
    return Exception


def _returns(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Return)
        and one.value is not None
        and not (isinstance(one.value, ast.Constant) and not one.value.value)
        for one in ast.walk(node)
    )
