"""The values of a plugin's expressions. Subclasses follow calls and modules."""

from __future__ import annotations

import abc
import ast
import builtins
import re
from collections.abc import Iterable
from typing import Any

from sglang_platform.devtools.flow.host import HostAnswers
from sglang_platform.devtools.flow.library import (
    COMPARISONS,
    Missing,
    NamesOf,
    attribute_of,
    call_library,
    is_plain,
)
from sglang_platform.devtools.flow.values import (
    UNKNOWN,
    Bound,
    External,
    Fault,
    Function,
    HostPart,
    Instance,
    OwnClass,
    OwnModule,
    Path,
    Raises,
    Scope,
    Unknown,
    joined,
    truth,
    unknown_of,
)
from sglang_platform.devtools.source.answers import Absent
from sglang_platform.devtools.source.values import shortened

__all__ = ["Expressions"]

_SIMPLE_FORMAT = re.compile(r"[^{}%]*(?:(?:\{\w*\}|%[sd])[^{}%]*)*")
_LONGEST = 60


class Expressions(abc.ABC):
    """Evaluates expressions on one path. `unreached`: parts that are known not to run."""

    def __init__(self, host: HostAnswers) -> None:
        self.host = host
        self.escaped: set[int] = set()
        self.contained: set[int] = set()
        self.unreached: list[ast.AST] = []
        self.host_uses = 0

    @abc.abstractmethod
    def call(self, function: Function, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        """The result of a call of a plugin's function."""

    @abc.abstractmethod
    def member(self, module: str, name: str, path: Path) -> Any:
        """A name of another module of the plugin; None if it has none."""

    @abc.abstractmethod
    def fail(self, fault: Fault, error: type[BaseException], path: Path) -> None:
        """Record a failing use. Raises `Raises` if the plugin handles the exception."""

    @abc.abstractmethod
    def visit(self, node: ast.AST, path: Path) -> None:
        """Record that a node runs."""

    @abc.abstractmethod
    def survives(self, error: type[BaseException], path: Path) -> bool | None:
        """Whether the plugin handles an exception on this path."""

    def values(self, nodes: Iterable[ast.expr], path: Path) -> list[Any]:
        return [self.value(one, path) for one in nodes]

    def escape(self, *values: Any) -> None:
        """Record functions and classes that code outside the plugin may call."""
        for one in values:
            match one:
                case Function() | OwnClass():
                    self.escaped.add(id(one.node))
                case Bound(name=Function() as function):
                    self.escaped.add(id(function.node))
                case list() | tuple():
                    self.escape(*one)
                case dict():
                    self.escape(*one.values())

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

    @abc.abstractmethod
    def function(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> Any:
        """The function that a `def` or `lambda` makes."""

    def named(self, name: str, scope: Scope | None, path: Path) -> Any:
        while scope is not None:
            if name in scope.names:
                if scope.parent is None and scope is not path.scope and name in scope.set_elsewhere:
                    return scope.names[name] if name in path.scope.own_globals else Unknown(name)
                return scope.names[name]
            scope = scope.parent
        return (
            External(f"builtins.{name}")
            if hasattr(builtins, name) and name[:2] != "__" or name == "__import__"
            else UNKNOWN
        )

    def _contain(self, values: list[Any]) -> None:
        self.contained.update(id(one.node) for one in values if isinstance(one, Function))

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

    # Parts of something

    def _attribute(self, node: ast.Attribute, path: Path) -> Any:
        self.visit(node, path)
        owner, name = self.value(node.value, path), node.attr
        if isinstance(owner, HostPart):
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

    def part_of(self, owner: Any, name: str, path: Path) -> Any:
        match owner:
            case External(full=full):
                return False if name == "TYPE_CHECKING" else External(f"{full}.{name}")
            case OwnModule(name=module):
                return self.member(module, name, path) or UNKNOWN
            case OwnClass() | Instance():
                return self._of_class(owner, name, path)
            case NamesOf() | Function():
                return Bound(owner, name)
            case Unknown(part=HostPart() as part):
                answer = self.host.attribute(part, name)
                return Unknown(owner.why, answer if isinstance(answer, HostPart) else None)
            case Unknown():
                return Unknown(owner.why)
            case HostPart():
                return UNKNOWN
            case str() if name == "format" and _SIMPLE_FORMAT.fullmatch(owner):
                return owner.format
        found = attribute_of(owner, name)
        return UNKNOWN if found is None else found

    def _of_class(self, owner: OwnClass | Instance, name: str, path: Path) -> Any:
        if isinstance(owner, Instance) and name in owner.names:
            return owner.names[name]
        cls = owner.cls if isinstance(owner, Instance) else owner
        self.escape(cls)
        found = self._in_line(cls, name)
        if not isinstance(found, Function):
            return found
        if found.kind == "property":
            return self.call(found, [owner], {}, path) if isinstance(owner, Instance) else UNKNOWN
        if found.kind == "staticmethod":
            return found
        if found.kind == "classmethod":
            return Bound(cls, found)
        return Bound(owner, found) if isinstance(owner, Instance) else found

    def _in_line(self, cls: OwnClass, name: str) -> Any:
        if name in cls.scope.names:
            return cls.scope.names[name]
        found = (self._in_line(one, name) for one in cls.bases if isinstance(one, OwnClass))
        return next((one for one in found if one is not UNKNOWN), UNKNOWN)

    def _subscript(self, node: ast.Subscript, path: Path) -> Any:
        owner = self.value(node.value, path)
        if isinstance(node.slice, ast.Slice):
            ends = [
                self.value(one, path) if one is not None else None
                for one in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if is_plain(owner) and isinstance(owner, str | list | tuple) and all(map(is_plain, ends)):
                return owner[slice(*ends)]
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

    # Calls

    def _call(self, node: ast.Call, path: Path) -> Any:
        self.visit(node, path)
        called = self.value(node.func, path)
        args = [self.value(one, path) for one in node.args]
        words = {one.arg: self.value(one.value, path) for one in node.keywords if one.arg is not None}
        for one in node.keywords:
            if one.arg is None:
                self.value(one.value, path)
        if any(isinstance(one, ast.Starred) for one in node.args):
            args = self._spread(node.args, path)
        return self.result(node, called, args, words, path)

    def _spread(self, nodes: list[ast.expr], path: Path) -> list[Any]:
        found: list[Any] = []
        for one in nodes:
            inner = self.value(one.value if isinstance(one, ast.Starred) else one, path)
            found += inner if isinstance(one, ast.Starred) and isinstance(inner, list | tuple) else [inner]
        return found

    def result(self, node: ast.expr, called: Any, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        """The result of calling a value."""
        if not isinstance(called, Function | OwnClass | Bound | Instance):
            self.escape(*args, *words.values())
        match called:
            case Function():
                return self.call(called, args, words, path)
            case Bound(owner=owner, name=Function() as function):
                return self.call(function, [owner, *args], words, path)
            case Bound(owner=NamesOf(part=part), name="get") if args and isinstance(args[0], str):
                answer = self.host.attribute(part, args[0])
                return (args[1] if len(args) > 1 else None) if isinstance(answer, Absent) else answer
            case OwnClass():
                return self._instance(called, args, words, path)
            case Instance():
                return self.result(node, self._of_class(called, "__call__", path), args, words, path)
            case External(full=full):
                return self._library(node, full, args, words, path)
            case HostPart():
                self.host_uses += 1
                return unknown_of(otherwise=_text(node))
            case Unknown(part=HostPart()):
                return unknown_of(called, otherwise=_text(node))
            case Unknown():
                return unknown_of(called, *args, *words.values())
        if callable(called) and all(map(is_plain, (*args, *words.values()))):
            return self._known(lambda: called(*args, **words), node, path)
        return unknown_of(*args, *words.values())

    def _library(self, node: ast.expr, full: str, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        if full == "builtins.map" and len(args) == 2 and isinstance(args[1], list | tuple):
            return [self.result(node, args[0], [one], {}, path) for one in args[1]]
        if full == "builtins.next" and args and isinstance(args[0], list | tuple) and args[0]:
            return args[0][0]
        if any(isinstance(one, HostPart) for one in args) or self._names_host(args):
            self.host_uses += 1
        if (
            full == "builtins.hasattr"
            and len(args) == 2
            and isinstance(args[0], OwnModule | OwnClass | Instance)
        ):
            found = self.part_of(args[0], str(args[1]), path)
            return Unknown(_text(node)) if isinstance(found, Unknown) else True
        if (
            full == "builtins.getattr"
            and len(args) > 1
            and isinstance(args[1], str)
            and isinstance(args[0], OwnModule | OwnClass | Instance)
        ):
            return self.part_of(args[0], args[1], path)
        try:
            return self._retold(call_library(self.host, full, args, words, path.scope.module.package), node)
        except Missing as missing:
            return self._missing(node, missing.target, missing.error, missing.absent, path)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            return self._raised(type(error), node, path)

    def _names_host(self, args: list[Any]) -> bool:
        return any(isinstance(one, str) and self.host.is_hosts(one) for one in args)

    @staticmethod
    def _retold(found: Any, node: ast.expr) -> Any:
        """An unknown answer, named by its own expression."""
        return found._replace(why=_text(node)) if isinstance(found, Unknown) and found.why else found

    def _instance(self, cls: OwnClass, args: list[Any], words: dict[str, Any], path: Path) -> Any:
        made = Instance(cls)
        initial = self._in_line(cls, "__init__")
        if isinstance(initial, Function):
            self.call(initial, [made, *args], words, path)
        return made

    # Operators

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
                return unknown_of(found) if isinstance(found, Unknown) else found is not negated
        if isinstance(op, ast.Is | ast.IsNot) and (one is None or other is None):
            value = other if one is None else one
            if isinstance(value, HostPart | Function | OwnClass | OwnModule | Bound):
                return negated if truth(value) else Unknown(_text(node))
        if is_plain(one) and is_plain(other):
            found = self._known(lambda: COMPARISONS[type(op)](one, other), node, path)
            return bool(found) if not isinstance(found, Unknown) else found
        neutral = [one, other] if not any(isinstance(v, HostPart) for v in (one, other)) else []
        return unknown_of(one, other, otherwise="" if neutral else _text(node))

    def _contained(self, one: Any, other: Any) -> bool | Unknown | None:
        if not isinstance(one, str):
            return None
        if isinstance(other, NamesOf):
            answer = self.host.attribute(other.part, one)
            return False if isinstance(answer, Absent) else answer if isinstance(answer, Unknown) else True
        if isinstance(other, External) and other.full == "sys.modules" and self.host.is_hosts(one):
            absent = isinstance(self.host.module(one), Absent)
            return False if absent else Unknown(f"{one!r} in sys.modules")
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
        return unknown[0] if len(node.values) == 1 else unknown_of(*unknown)._replace(part=_part_of(unknown))

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
            and _SIMPLE_FORMAT.fullmatch(one)
            and is_plain(other)
        ):
            return self._known(lambda: one % other, node, path)
        return unknown_of(one, other)

    def _comprehension(self, node: Any, path: Path) -> Any:
        first, more = node.generators[0], node.generators[1:]
        over = self.value(first.iter, path)
        scope = Scope(path.scope.module, {}, path.scope)
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

    def bind(self, target: ast.expr, value: Any, path: Path) -> None:
        """Assign a value to a target."""
        match target:
            case ast.Name(id=name):
                scope = path.scope
                while name in scope.own_globals and scope.parent is not None:
                    scope = scope.parent
                scope.names[name] = value
            case ast.Starred(value=inner):
                self.bind(inner, unknown_of(value), path)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                plain = not any(isinstance(one, ast.Starred) for one in parts)
                same = plain and isinstance(value, list | tuple) and len(value) == len(parts)
                for place, part in enumerate(parts):
                    self.bind(part, value[place] if same else unknown_of(value), path)
            case ast.Attribute(value=inner, attr=name):
                owner = self.value(inner, path)
                if not isinstance(owner, Instance | OwnClass):
                    self.escape(value)
                if isinstance(owner, Instance):
                    owner.names[name] = value
                elif isinstance(owner, OwnClass):
                    owner.scope.names[name] = value
                self.visit(target, path)
            case ast.Subscript():
                self.value(target.value, path)
                self.escape(value)
                if not isinstance(target.slice, ast.Slice):
                    self.value(target.slice, path)

    # Failures

    def _missing(
        self, node: ast.expr, target: str, error: type[BaseException], absent: Absent, path: Path
    ) -> Any:
        self.fail(Fault(path.scope.module, node, target, absent.why, absent.nearest), error, path)
        return UNKNOWN

    def _known(self, ask: Any, node: ast.expr, path: Path) -> Any:
        """The answer of Python to known values."""
        try:
            return ask()
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            return self._raised(type(error), node, path)

    def _raised(self, error: type[BaseException], node: ast.expr, path: Path) -> Any:
        builtin = next(one for one in error.__mro__ if one.__module__ == "builtins")
        if self.survives(builtin, path):
            raise Raises(builtin)
        return Unknown(_text(node))


def _part_of(values: list[Any]) -> HostPart | None:
    return next((one.part for one in values if isinstance(one, Unknown) and one.part is not None), None)


def _text(node: ast.expr) -> str:
    return shortened(" ".join(ast.unparse(node).split()), _LONGEST)
