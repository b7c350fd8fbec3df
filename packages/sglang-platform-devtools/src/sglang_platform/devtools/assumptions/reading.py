"""One module of the host: its places, with the conditions that keep another device away from them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from sglang_platform.devtools.assumptions.off_cuda import holds, never_passes
from sglang_platform.devtools.assumptions.places import (
    is_kernel,
    jitted,
    launched,
    place_of,
    says_how_to_launch,
)
from sglang_platform.devtools.assumptions.site import Kind
from sglang_platform.devtools.assumptions.words import DEVICES, asks_for_cuda, is_cuda_module
from sglang_platform.devtools.source.conditions import TRY, blocks, decided, guards_imports, suppresses
from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.scope import imported_module
from sglang_platform.devtools.source.values import dotted, text_of

__all__ = ["FoundPlace", "KernelLaunch", "ModuleFacts", "Under", "read_module"]

_DISPATCHED = re.compile(rf"_*(?:forward|apply)_(?:{'|'.join(sorted(DEVICES - {'meta'}))}|aiter|amx)")
_asks_for_cuda = functools.cache(asks_for_cuda)


class Under(NamedTuple):
    """What encloses a statement: the condition or guard that keeps other devices away, empty if there is none."""

    asked: str = ""
    guarded: bool = False
    """In a `try` that handles a failed import."""

    def and_asked(self, text: str) -> Under:
        return self if self.asked else Under(text, self.guarded)

    def and_guarded(self) -> Under:
        return Under(self.asked, guarded=True)


class FoundPlace(NamedTuple):
    """A place, with the function that it is in."""

    kind: Kind
    form: str
    function: str
    line: int
    under: Under


class KernelLaunch(NamedTuple):
    """``kernel[grid](...)``, if `kernel` is a Triton kernel; `is_sure`: the call itself shows that it is."""

    kernel: str
    found: FoundPlace
    is_sure: bool


class ModuleFacts:
    """The places of one module, and the names of its Triton kernels."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: list[FoundPlace] = []
        self.launches: list[KernelLaunch] = []
        self.kernels: set[str] = set()


def read_module(module: Module, compiled: frozenset[str] = frozenset()) -> ModuleFacts:
    """Read one module. `compiled`: the host's modules whose kernels the CUDA compiler builds on first use."""
    reader = _Reader(module, compiled)
    reader.block(module.tree.body, Under())
    return reader.facts


class _Reader:
    def __init__(self, module: Module, compiled: frozenset[str]) -> None:
        self.facts = ModuleFacts(module)
        self._package = module.package
        self._own_kernels = module.name.startswith(("sglang.kernels", "sglang.jit_kernel"))
        self._compiled = compiled
        names = ImportedNames(module.tree, module.package, for_type_checkers=True).names
        self._torch_cuda = {name: full for name, full in names.items() if full.startswith("torch.cuda")}
        self._unit = ""
        self._class = ""
        self._flags: dict[str, bool] = {}
        self._collect_flags(module.tree.body)

    def _collect_flags(self, body: Iterable[ast.stmt]) -> None:
        """Collect the module-level flags first: functions read them after the whole module has run."""
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    answer = holds(value, self._flags)
                    if answer is not None and not isinstance(value, ast.Constant):
                        self._flags[name] = answer
                case ast.If():
                    self._collect_flags([*node.body, *node.orelse])
                case ast.Try():
                    self._flags.update(_missing(node))
                    self._collect_flags(node.body)

    # Statements

    def block(self, body: list[ast.stmt], under: Under) -> None:
        for node in body:
            self._statement(node, under)
            if isinstance(node, ast.If | ast.Assert) and never_passes(node, self._flags):
                under = under.and_asked(text_of(node.test))

    def _statement(self, node: ast.stmt, under: Under) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, under)
            case ast.ClassDef():
                self._class_body(node, under)
            case ast.If():
                self._if(node, under)
            case ast.Import() | ast.ImportFrom():
                self._import(node, under)
            case ast.Expr(value=ast.Constant()):
                return
            case ast.AnnAssign(value=value):
                if value is not None:
                    self._assigned([node.target], value)
                    self._expression(value, under)
            case ast.Assign(targets=targets, value=value):
                self._assigned(targets, value)
                for one in targets:
                    self._expression(one, under)
                self._expression(value, under)
            case ast.While(test=test) | ast.Assert(test=test):
                self._expression(test, under, in_test=True)
                self.block(getattr(node, "body", []), under)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, under)
                self.block(node.body, under.and_guarded() if suppresses(node)[1] else under)
            case ast.Match():
                self._match(node, under)
            case _ if isinstance(node, TRY):
                self._try(node, under)
            case _:
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.expr):
                        self._expression(part, under)
                for block in blocks(node):
                    self.block(block, under)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, under: Under) -> None:
        for one in node.decorator_list:
            self._expression(one, under)
        if jitted(node):
            self.facts.kernels.add(node.name)
        outer = self._unit, self._flags
        if not outer[0]:
            self._unit = f"{self._class}.{node.name}" if self._class else node.name
            if self._class and _DISPATCHED.fullmatch(node.name):
                under = under.and_asked("called for that device")
            under = Under(under.asked)
        self._flags = {name: value for name, value in self._flags.items() if name not in _parameters(node)}
        for one in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self._expression(one, under)
        if not is_kernel(node):  # the body is device code
            self.block(node.body, under)
        self._unit, self._flags = outer

    def _class_body(self, node: ast.ClassDef, under: Under) -> None:
        for one in (*node.decorator_list, *node.bases, *(word.value for word in node.keywords)):
            self._expression(one, under)
        outer = self._class
        if not self._unit:
            self._class = f"{outer}.{node.name}" if outer else node.name
        self.block(node.body, under)
        self._class = outer

    def _if(self, node: ast.If, under: Under) -> None:
        self._expression(node.test, under, in_test=True)
        answer = holds(node.test, self._flags)
        if decided(node.test) is not False:
            self.block(node.body, under.and_asked(text_of(node.test)) if answer is False else under)
        if decided(node.test) is not True:
            text = f"not ({text_of(node.test)})"
            self.block(node.orelse, under.and_asked(text) if answer is True else under)

    def _match(self, node: ast.Match, under: Under) -> None:
        self._expression(node.subject, under)
        for case in node.cases:
            if case.guard is not None:
                self._expression(case.guard, under, in_test=True)
            self.block(case.body, under)

    def _try(self, node: ast.Try, under: Under) -> None:
        self.block(node.body, under.and_guarded() if guards_imports(node) else under)
        for handler in node.handlers:
            self.block(handler.body, under)
        self.block(node.orelse, under)
        self.block(node.finalbody, under)
        self._flags.update(_missing(node))

    def _import(self, node: ast.Import | ast.ImportFrom, under: Under) -> None:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            origin = imported_module(node, self._package)
            modules = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        named = [one for one in modules if is_cuda_module(one) or one in self._compiled]
        if self._own_kernels:  # the host's kernels that build on each other
            named = [one for one in named if not one.startswith("sglang.")]
        if not named:
            return
        form = "function" if self._unit else "module"
        asked = under.and_asked("try") if under.guarded else under
        self.facts.found.append(FoundPlace("import", form, self._unit, node.lineno, asked))

    def _assigned(self, targets: list[ast.expr], value: ast.expr) -> None:
        for one in targets:
            if isinstance(one, ast.Name):
                self._bound(one.id, value)

    def _bound(self, name: str, value: ast.expr) -> None:
        answer = holds(value, self._flags)
        if answer is not None and not isinstance(value, ast.Constant):
            self._flags[name] = answer
        elif self._unit:
            self._flags.pop(name, None)

    # Expressions

    def _expression(self, root: ast.expr, under: Under, *, in_test: bool = False) -> None:
        waiting: list[tuple[ast.AST, Under, bool]] = [(root, under, in_test)]
        while waiting:
            node, around, test = waiting.pop()
            kind = type(node)
            if kind is ast.Constant:
                value = node.value  # type: ignore[attr-defined]
                if type(value) is str and value.partition(":")[0] == "cuda":
                    self._place(node, around, test)  # type: ignore[arg-type]
                continue
            if kind is ast.Name:
                self._name(node, around, test)  # type: ignore[arg-type]
                continue
            if kind is ast.BoolOp:
                waiting += self._operands(node, around)  # type: ignore[arg-type]
                continue
            if kind is ast.IfExp:
                waiting += self._branches(node, around)  # type: ignore[arg-type]
                continue
            if kind is ast.Attribute:
                if self._attribute(node, around, test):  # type: ignore[arg-type]
                    waiting.append((node.value, around, test))  # type: ignore[attr-defined]
                continue
            if kind is ast.Call:
                self._call(node, around)  # type: ignore[arg-type]
                if dotted(node.func) == ("isinstance",):  # type: ignore[attr-defined]
                    waiting.append((node.args[0], around, test))  # type: ignore[attr-defined]
                    continue
            if kind in _MAY_BE_PLACES and not self._place(node, around, test):  # type: ignore[arg-type]
                continue
            if kind is ast.Subscript:
                index = node.slice  # type: ignore[attr-defined]
                waiting.append((node.value, around, test))  # type: ignore[attr-defined]
                if not isinstance(index, ast.Constant):
                    waiting.append((index, around, test))
                continue
            test = test and kind in (ast.UnaryOp, ast.Compare, ast.Call)
            for field in node._fields:
                part = getattr(node, field, None)
                if isinstance(part, ast.AST):
                    waiting.append((part, around, test))
                elif isinstance(part, list):
                    waiting += [(one, around, test) for one in part if isinstance(one, ast.AST)]

    def _place(self, node: ast.expr, under: Under, in_test: bool) -> bool:
        """Record the expression if it is a place; True if its subexpressions are to be examined."""
        found = place_of(node, self._torch_cuda, in_test=in_test)
        if found is None:
            return True
        self.facts.found.append(FoundPlace(found.kind, found.form, self._unit, node.lineno, under))
        return found.goes_on

    def _name(self, node: ast.Name, under: Under, in_test: bool) -> None:
        name = node.id
        if name in self._torch_cuda or _asks_for_cuda(name):
            self._place(node, under, in_test)

    def _attribute(self, node: ast.Attribute, under: Under, in_test: bool) -> bool:
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            base = base.value
        first = base.id if isinstance(base, ast.Name) else None
        told = first == "torch" or first in self._torch_cuda or _asks_for_cuda(node.attr)
        return not told or self._place(node, under, in_test)

    def _call(self, node: ast.Call, under: Under) -> None:
        kernel = launched(node)
        if kernel is not None:
            found = FoundPlace("triton", "launch", self._unit, node.lineno, under)
            self.facts.launches.append(KernelLaunch(kernel, found, says_how_to_launch(node)))

    def _operands(self, node: ast.BoolOp, under: Under) -> Iterable[tuple[ast.AST, Under, bool]]:
        """The operands with their conditions: each runs only if those before it did not short-circuit."""
        is_and = isinstance(node.op, ast.And)
        for one in node.values:
            yield one, under, True
            if holds(one, self._flags) is (not is_and):
                under = under.and_asked(text_of(one) if is_and else f"not ({text_of(one)})")

    def _branches(self, node: ast.IfExp, under: Under) -> Iterable[tuple[ast.AST, Under, bool]]:
        answer = holds(node.test, self._flags)
        yield node.test, under, True
        yield node.body, under.and_asked(text_of(node.test)) if answer is False else under, False
        yield node.orelse, under.and_asked(f"not ({text_of(node.test)})") if answer else under, False


_MAY_BE_PLACES = (ast.Call, ast.Compare, ast.List, ast.Tuple, ast.Set, ast.Dict)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = node.args
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _missing(node: ast.Try) -> dict[str, bool]:
    """The flags that a failed import of a CUDA package sets, with their values."""
    imports = [one for one in node.body if isinstance(one, ast.Import | ast.ImportFrom)]
    names = [
        alias.name if isinstance(one, ast.Import) else f"{one.module}.{alias.name}"
        for one in imports
        for alias in one.names
    ]
    if not guards_imports(node) or not any(map(is_cuda_module, names)):
        return {}
    return {
        target.id: bool(one.value.value)
        for handler in node.handlers
        for one in handler.body
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
        for target in one.targets
        if isinstance(target, ast.Name) and (one.value.value is False or one.value.value is None)
    }
