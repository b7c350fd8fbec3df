"""Exceptions: `raise`, `try`, and the context managers that end them."""

from __future__ import annotations

import abc
import ast
from collections.abc import Sequence
from typing import Any

from sglang_platform.devtools.flow.ends import End, Ends
from sglang_platform.devtools.flow.expressions import Expressions
from sglang_platform.devtools.flow.guards import Frame, errors_of, first_stand_in, leaves
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    External,
    Function,
    HostObject,
    Path,
    PluginClass,
    Raises,
    UnknownValue,
    is_neutral,
    merged,
    truth,
)

__all__ = ["Handlers"]


class Handlers(Expressions):
    """Evaluates `raise`, `try` and `with`."""

    pending: list[End]
    """Exceptions that a call in the current statement may raise."""

    @abc.abstractmethod
    def block(self, body: Sequence[ast.stmt], path: Path) -> Ends:
        """Evaluate statements in order."""

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
        frames = [
            Frame(one, node.lineno, stand_ins=first_stand_in(handler.body))
            for one, handler in zip(types, node.handlers, strict=True)
        ]
        if leaves(node.finalbody):
            frames.append(Frame((BaseException,), node.lineno))
        before, uses = dict(path.scope.names), self.host_uses
        body = self.block(node.body, path._replace(frames=(*path.frames, *reversed(frames))))
        asked = self.host_uses > uses and self.host.is_known
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
            case Function(kind="contextmanager", node=node) if not any(
                isinstance(one, ast.ExceptHandler | ast.With) for one in ast.walk(node)
            ):
                return []
            case PluginClass(scope=scope):
                leaver = scope.names.get("__exit__")
                if isinstance(leaver, Function) and not _returns(leaver.node):
                    return []
                return [Frame(None, context.lineno, ast.unparse(context.func))]
            case HostObject() | UnknownValue(why=""):
                return []
        return [Frame(None, context.lineno, ast.unparse(context.func))] if not truth(found) else []

    @staticmethod
    def _joined(path: Path, after: list[dict[str, Any]], ends: list[End], why: str = "") -> Ends:
        if not after:
            return Ends(None, ends)
        path.scope.names = after[0]
        for other in after[1:]:
            path.scope.names = merged(path.scope.names, other, why)
        return Ends(path, ends)

    @staticmethod
    def _end(kind: Any, path: Path, value: Any = None, raised: Raises | None = None) -> End:
        return End(kind, dict(path.scope.names), path.unsure, value, raised)


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
