"""The value of an expression on one path."""

from __future__ import annotations

import ast
from typing import Any

from sglang_platform.devtools.flow.calls import Calls
from sglang_platform.devtools.flow.library import (
    NamesOf,
)
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    HostObject,
    Path,
    truth,
    unknown_of,
)
from sglang_platform.devtools.source.answers import Absent

__all__ = ["Expressions"]


class Expressions(Calls):
    """Evaluates expressions."""

    def value(self, node: ast.expr, path: Path) -> Any:
        """The value of an expression."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.named(name, path.scope, path)
            case ast.Attribute():
                return self._attribute(node, path)
            case ast.Call():
                return self._call(node, path)
            case ast.Compare():
                return self._compare(node, path)
            case ast.BoolOp():
                return self._bool(node, path)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                found = self.value(inner, path)
                answer = truth(found)
                return unknown_of(found) if answer is None else not answer
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return -number
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._branches(self.value(test, path), [body], [orelse], path)
            case ast.NamedExpr(target=target, value=inner):
                path.scope.names[target.id] = found = self.value(inner, path)
                return found
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return self._sequence(node, parts, path)
            case ast.Dict(keys=keys, values=parts):
                names = [self.value(one, path) if one is not None else UNKNOWN for one in keys]
                found_values = self.values(parts, path)
                self._contain(found_values)
                if all(isinstance(one, str | int | bool) for one in names):
                    return dict(zip(names, found_values, strict=True))
                return unknown_of(*names, *found_values)
            case ast.JoinedStr(values=parts):
                texts = [self.value(one, path) for one in parts]
                plain = all(isinstance(one, str | int) for one in texts)
                return "".join(map(str, texts)) if plain else unknown_of(*texts)
            case ast.FormattedValue(value=inner):
                found = self.value(inner, path)
                return found if node.format_spec is None else unknown_of(found)
            case ast.Subscript():
                return self._subscript(node, path)
            case ast.BinOp(left=left, op=op, right=right):
                return self._sum(node, self.value(left, path), op, self.value(right, path), path)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, path)
            case ast.Lambda():
                return self.function(node, path)
        parts = [self.value(one, path) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        return unknown_of(*parts)

    def _sequence(self, node: ast.expr, parts: list[ast.expr], path: Path) -> Any:
        found: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                inner = self.value(part.value, path)
                if not isinstance(inner, list | tuple):
                    return unknown_of(inner)
                found += inner
            else:
                found.append(self.value(part, path))
        self._contain(found)
        return found if isinstance(node, ast.List) else tuple(found)

    def _attribute(self, node: ast.Attribute, path: Path) -> Any:
        self.visit(node, path)
        owner, name = self.value(node.value, path), node.attr
        if isinstance(owner, HostObject):
            self.host_uses += 1
            if name == "__dict__":
                return NamesOf(owner)
            if not isinstance(node.ctx, ast.Load):
                return UNKNOWN
            answer = self.host.attribute(owner, name)
            if isinstance(answer, Absent):
                return self._missing(node, f"{owner.full}.{name}", AttributeError, answer, path)
            return answer
        return self.part_of(owner, name, path)
