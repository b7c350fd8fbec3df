"""The order of statements: branches, loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from sglang_platform.devtools.flow.definitions import Definitions
from sglang_platform.devtools.flow.ends import End, Ends
from sglang_platform.devtools.flow.guards import ends_process
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    External,
    Path,
    Raises,
    UnknownValue,
    merged,
    truth,
    unknown_of,
)
from sglang_platform.devtools.source.conditions import TRY
from sglang_platform.devtools.source.namespaces import captured
from sglang_platform.devtools.source.values import text_of

__all__ = ["Statements"]

_MOST_ROUNDS = 100


class Statements(Definitions):
    """Evaluates statements."""

    def block(self, body: Sequence[ast.stmt], path: Path) -> Ends:
        ends: list[End] = []
        for place, node in enumerate(body):
            found = self._statement(node, path)
            ends += found.ends
            if found.path is None:
                self.unreached += body[place + 1 :]
                if self.host.is_known or path.scope.parent is not None:
                    return Ends(None, ends)
            path = found.path or path
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
                self.bind(
                    ast.Name(node.name, ast.Store()),
                    self._decorated(node, self.function(node, path), path),
                    path,
                )
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
        """Any case may be the one: patterns are not compared with values."""
        test = _condition(self.value(node.subject, path), node.subject)
        inside = path._replace(unsure=path.unsure or test.why)
        ends: list[End] = []
        before, after, goes_on = dict(path.scope.names), [], path
        for case in node.cases:
            path.scope.names = before | dict.fromkeys(captured(case.pattern), test)
            why = inside.unsure
            if case.guard is not None:
                why = why or _condition(self.value(case.guard, inside), case.guard).why
            taken = self.block(case.body, inside._replace(unsure=why))
            ends += taken.ends
            if taken.path is None:
                goes_on = goes_on._replace(unsure=goes_on.unsure or why)
            else:
                after.append(path.scope.names)
        last = node.cases[-1]
        if last.guard is not None or not isinstance(last.pattern, ast.MatchAs) or last.pattern.pattern:
            after.append(before)
        return self._joined(goes_on, after, ends, test.why)


def _condition(value: Any, node: ast.expr) -> UnknownValue:
    """A value as a condition that is not followed: it counts unless it cannot depend on the release."""
    is_unknown = isinstance(value, UnknownValue | External)
    return UnknownValue(unknown_of(value, otherwise="" if is_unknown else text_of(node)).why)
