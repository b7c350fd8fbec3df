"""Operators on values: comparisons, `and` and `or`, sums, parts by index, comprehensions."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

from sglang_platform.devtools.flow.evaluation import Evaluation, part_in
from sglang_platform.devtools.flow.library import (
    COMPARISONS,
    NamesOf,
    is_plain,
)
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    Bound,
    External,
    Function,
    HostObject,
    Namespace,
    Path,
    PluginClass,
    PluginModule,
    Spec,
    UnknownValue,
    joined,
    truth,
    unknown_of,
)
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.values import text_of

__all__ = ["Operators"]

SIMPLE_FORMAT = re.compile(r"[^{}%]*(?:(?:\{\w*\}|%[sd])[^{}%]*)*")


class Operators(Evaluation):
    """Evaluates operators."""

    def _subscript(self, node: ast.Subscript, path: Path) -> Any:
        owner = self.value(node.value, path)
        if isinstance(node.slice, ast.Slice):
            ends = [
                self.value(one, path) if one is not None else None
                for one in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if is_plain(owner) and isinstance(owner, str | list | tuple) and all(map(is_plain, ends)):
                return self._known(lambda: owner[slice(*ends)], node, path)
            return unknown_of(owner, *ends)
        key = self.value(node.slice, path)
        if isinstance(owner, External) and owner.full == "sys.modules" and isinstance(key, str):
            if not self.host.is_hosts(key) or not isinstance(node.ctx, ast.Load):
                return UNKNOWN
            found = self.host.module(key)
            return self._missing(node, key, KeyError, found, path) if isinstance(found, Absent) else found
        if isinstance(owner, NamesOf) and isinstance(key, str):
            found_name = self.host.attribute(owner.part, key)
            return (
                self._missing(node, f"{owner.part.full}.{key}", KeyError, found_name, path)
                if isinstance(found_name, Absent)
                else found_name
            )
        if isinstance(owner, str | list | tuple | dict) and isinstance(key, str | int):
            return self._known(lambda: owner[key], node, path)  # type: ignore[index]
        self.escape(owner)
        return unknown_of(owner, key)

    def _compare(self, node: ast.Compare, path: Path) -> Any:
        values = [self.value(one, path) for one in (node.left, *node.comparators)]
        answers = [
            self._compared(op, values[place], values[place + 1], node, path)
            for place, op in enumerate(node.ops)
        ]
        if any(one is False for one in answers):
            return False
        return True if all(one is True for one in answers) else unknown_of(*answers, *values)

    def _compared(self, op: ast.cmpop, one: Any, other: Any, node: ast.expr, path: Path) -> Any:
        negated = isinstance(op, ast.NotIn | ast.IsNot)
        if isinstance(op, ast.In | ast.NotIn):
            found = self._contained(one, other)
            if found is not None:
                return unknown_of(found) if isinstance(found, UnknownValue) else found is not negated
        if isinstance(op, ast.Is | ast.IsNot) and (one is None or other is None):
            value = other if one is None else one
            if isinstance(value, HostObject | Function | PluginClass | PluginModule | Bound | Spec):
                return negated if truth(value) else UnknownValue(text_of(node))
        if is_plain(one) and is_plain(other):
            found = self._known(lambda: COMPARISONS[type(op)](one, other), node, path)
            return bool(found) if not isinstance(found, UnknownValue) else found
        neutral = [one, other] if not any(isinstance(v, HostObject) for v in (one, other)) else []
        return unknown_of(one, other, otherwise="" if neutral else text_of(node))

    def _contained(self, one: Any, other: Any) -> bool | UnknownValue | None:
        if not isinstance(one, str):
            return None
        if isinstance(other, NamesOf):
            answer = self.host.attribute(other.part, one)
            return (
                False if isinstance(answer, Absent) else answer if isinstance(answer, UnknownValue) else True
            )
        if isinstance(other, External) and other.full == "sys.modules" and self.host.is_hosts(one):
            absent = isinstance(self.host.module(one), Absent)
            return False if absent else UnknownValue(f"{one!r} in sys.modules")
        return None

    def _bool(self, node: ast.BoolOp, path: Path) -> Any:
        ends = isinstance(node.op, ast.Or)
        unknown: list[Any] = []
        for place, part in enumerate(node.values):
            found = self.value(part, path)
            answer = truth(found)
            if answer is ends:
                self.unreached += node.values[place + 1 :]
                return found if not unknown else ends
            if answer is None:
                unknown.append(found)
                path = path._replace(unsure=path.unsure or unknown_of(found).why)
        if not unknown:
            return found
        return unknown[0] if len(node.values) == 1 else replace(unknown_of(*unknown), part=part_in(unknown))

    def _branches(self, test: Any, body: list[ast.expr], orelse: list[ast.expr], path: Path) -> Any:
        answer = truth(test)
        if answer is not None:
            self.unreached += orelse if answer else body
            return self.value((body if answer else orelse)[0], path)
        inside = path._replace(unsure=path.unsure or unknown_of(test).why)
        return joined(self.value(body[0], inside), self.value(orelse[0], inside), unknown_of(test).why)

    def _sum(self, node: ast.BinOp, one: Any, op: ast.operator, other: Any, path: Path) -> Any:
        if isinstance(op, ast.Add) and type(one) is type(other) and isinstance(one, str | list | tuple):
            return one + other
        if isinstance(one, int | float) and isinstance(other, int | float):
            number = {ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__"}.get(type(op))
            if number is not None and max(abs(one), abs(other)) < 10**9:
                return self._known(lambda: getattr(one, number)(other), node, path)
        if (
            isinstance(op, ast.Mod)
            and isinstance(one, str)
            and SIMPLE_FORMAT.fullmatch(one)
            and is_plain(other)
        ):
            return self._known(lambda: one % other, node, path)
        return unknown_of(one, other)

    def _comprehension(self, node: Any, path: Path) -> Any:
        first, more = node.generators[0], node.generators[1:]
        over = self.value(first.iter, path)
        scope = Namespace(path.scope.module, {}, path.scope)
        inside = path._replace(scope=scope)
        known = (
            isinstance(over, list | tuple | str | dict | set | frozenset) and not more and len(over) <= 200
        )
        found: list[Any] = []
        unknown: list[Any] = [] if known else [over]
        for item in list(over) if known else [UNKNOWN]:
            self.bind(first.target, item, inside)
            for other in more:
                self.bind(other.target, self._item(self.value(other.iter, inside)), inside)
            tests = [self.value(one, inside) for one in (*first.ifs, *(t for o in more for t in o.ifs))]
            if any(truth(one) is False for one in tests):
                continue
            unknown += [one for one in tests if truth(one) is None]
            if isinstance(node, ast.DictComp):
                found.append((self.value(node.key, inside), self.value(node.value, inside)))
            else:
                found.append(self.value(node.elt, inside))
        if unknown:
            return unknown_of(*unknown)
        if isinstance(node, ast.DictComp):
            return dict(found) if all(isinstance(key, str | int) for key, _ in found) else UNKNOWN
        return found

    def _item(self, over: Any) -> Any:
        return unknown_of(over)
