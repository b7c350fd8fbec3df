"""Where one module uses a name, and when: later, in functions, or during the import of the module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

from sglang_platform.devtools.source.conditions import blocks_that_run
from sglang_platform.devtools.source.values import dotted, shortened

__all__ = ["MAIN", "Use", "Uses", "uses_in"]

MAIN = "what runs under `if __name__ == '__main__'`, where this module is another one"

_HANDS_ON = {
    "abstractmethod",
    "asynccontextmanager",
    "cache",
    "cached_property",
    "classmethod",
    "contextmanager",
    "dataclass",
    "deprecated",
    "final",
    "inference_mode",
    "lru_cache",
    "no_grad",
    "override",
    "property",
    "runtime_checkable",
    "staticmethod",
    "total_ordering",
}
"""Decorators after which only their result refers to the function."""

_SPELLED = re.compile(r"(?:[\w.]+[.:])?([A-Za-z_]\w*)")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Use(NamedTuple):
    """One use of a name in the code.

    `late`: it looks the name up on each run, after the module's import, so that it sees a hook. Otherwise it has read
    the name during the import, and keeps the original.
    """

    line: int
    late: bool
    how: str
    prefix: tuple[str, ...] | None = ()
    """The dotted prefix of an attribute; None if that is an expression."""


class Uses(NamedTuple):
    """Every use in one module, by the name that is used."""

    names: dict[str, list[Use]]
    attributes: dict[str, list[Use]]
    strings: dict[str, list[Use]]
    """Strings that spell a name: ``"run"``, ``"pkg.mod:run"``."""


def uses_in(tree: ast.Module) -> Uses:
    """All uses in a module, code under `TYPE_CHECKING` left out."""
    collector = _Collector()
    collector.block(tree.body, _Moment())
    return collector.uses


class _Moment(NamedTuple):
    """When a statement runs."""

    late: bool = False
    """In a function: after the module has run."""
    in_class: bool = False
    under_main: bool = False


class _Collector:
    def __init__(self) -> None:
        self.uses = Uses({}, {}, {})

    def block(self, body: Iterable[ast.stmt], moment: _Moment) -> None:
        for node in body:
            self._statement(node, moment)

    def _statement(self, node: ast.stmt, moment: _Moment) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, moment)
            case ast.ClassDef():
                self._class(node, moment)
            case ast.If():
                self._expression(node.test, moment)
                main = moment.under_main or (not moment.late and _is_main_guard(node.test))
                self.block(blocks_that_run(node), moment._replace(under_main=main))
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                self._assignment(node, moment)
            case _:
                self._parts(node, moment)

    def _parts(self, node: ast.AST, moment: _Moment) -> None:
        """The statements and the expressions of any other statement, handler or case."""
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                self._statement(part, moment)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                self._parts(part, moment)
            else:
                self._expression(part, moment)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, moment: _Moment) -> None:
        self._decorators(node, moment)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self._expression(default, moment, f"a default argument of {node.name}")
        arguments = (one for one in ast.walk(node.args) if isinstance(one, ast.arg))
        for annotation in filter(None, (node.returns, *(one.annotation for one in arguments))):
            self._expression(annotation, moment._replace(late=True))
        self.block(node.body, moment._replace(late=True, in_class=False))

    def _class(self, node: ast.ClassDef, moment: _Moment) -> None:
        for base in (*node.bases, *node.keywords):  # the hook engine rebases subclasses
            self._expression(base, moment._replace(late=True), f"class {node.name}")
        self._decorators(node, moment)
        self.block(node.body, moment._replace(in_class=True))

    def _decorators(self, node: _Definition, moment: _Moment) -> None:
        """Record the decorators: each receives the decorated object, and may keep a reference."""
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(called, ast.Attribute) and called.attr in ("setter", "getter", "deleter"):
                continue  # it names the property, as the definition itself does
            self._expression(decorator, moment, f"a decorator of {node.name}", own=node.name)
            if not moment.late and ast.unparse(called).rpartition(".")[2] not in _HANDS_ON:
                kept = Use(decorator.lineno, False, f"its decorator `@{_short(decorator)}`")
                _note(self.uses.names, node.name, kept)

    def _assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, moment: _Moment) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            return
        if isinstance(node, ast.AnnAssign):
            self._expression(node.annotation, moment._replace(late=True))
        for target in targets:
            self._expression(target, moment, beside=node)
        if node.value is not None:
            # The engine also replaces a module-level alias; a class attribute and a table keep the original.
            plain = isinstance(node.value, ast.Name) and isinstance(targets[0], ast.Name)
            swept = moment._replace(late=moment.late or (plain and not moment.in_class))
            self._expression(node.value, swept, f"`{_short(node)}`")

    def _expression(
        self,
        root: ast.AST,
        moment: _Moment,
        how: str = "",
        *,
        beside: ast.AST | None = None,
        own: str | None = None,
    ) -> None:
        """Record every use in an expression; `how` describes it in messages.

        A string next to the name itself, as in ``register("f", f)``, does not indicate a later use: it is left out if
        it spells `own`, or a name in the statement `beside` it.
        """
        how = how or ("" if moment.late else f"`{_short(root)}`")
        here = {one.id for one in ast.walk(beside or root) if isinstance(one, ast.Name)} | {own}
        waiting: list[tuple[ast.AST, bool]] = [(root, moment.late)]
        while waiting:
            node, late = waiting.pop()
            where = Use(getattr(node, "lineno", 0), late, how if how or late else f"`{_short(root)}`")
            if moment.under_main:
                where = where._replace(late=False, how=MAIN)
            match node:
                case ast.Lambda():  # its defaults are read now, its body runs later
                    waiting += [*((one, late) for one in ast.iter_child_nodes(node.args)), (node.body, True)]
                    continue
                case ast.Name(id=name, ctx=ast.Load()):
                    _note(self.uses.names, name, where)
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    _note(self.uses.attributes, name, where._replace(prefix=_prefix(node.value)))
                case ast.Constant(value=str(text)) if len(text) < 200:
                    spelled = _SPELLED.fullmatch(text)
                    if spelled is not None and (where.late or spelled[1] not in here):
                        _note(self.uses.strings, spelled[1], where._replace(late=True))
            waiting += [(one, late) for one in ast.iter_child_nodes(node)]


def _note(table: dict[str, list[Use]], name: str, use: Use) -> None:
    table.setdefault(name, []).append(use)


def _prefix(node: ast.expr) -> tuple[str, ...] | None:
    """The dotted prefix of an attribute; None for an expression, including a subscript."""
    return None if any(isinstance(one, ast.Subscript) for one in ast.walk(node)) else dotted(node)


def _is_main_guard(test: ast.expr) -> bool:
    names = {repr(getattr(one, "id", getattr(one, "value", None))) for one in ast.walk(test)}
    return isinstance(test, ast.Compare) and {"'__name__'", "'__main__'"} <= names


def _short(node: ast.AST) -> str:
    return shortened(ast.unparse(node).partition("\n")[0], 70)
