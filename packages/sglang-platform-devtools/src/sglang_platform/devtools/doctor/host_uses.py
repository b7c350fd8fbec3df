"""Checks of a plugin's uses of SGLang: imported names, calls of functions and classes, unpacked tuples. Reports a name
that the installed SGLang lacks, a call that it rejects, and a wrong number of values.

Only unconditional code is checked. A plugin that supports several releases guards its uses: code in a `try`, or under
an `if` that tests for a release or an attribute, is left out.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.doctor.finding import Finding, Severity
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.doctor.host_source import HostSource
from sglang_platform.devtools.hook_check.returns import values_given
from sglang_platform.devtools.host_calls import Call, call_of, signature_of
from sglang_platform.devtools.source.answers import Absent, Answer, Definition
from sglang_platform.devtools.source.conditions import TRY, blocks_that_run, handles_import_errors
from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module, modules_in
from sglang_platform.devtools.source.scope import imported_module
from sglang_platform.devtools.source.signatures import decorators
from sglang_platform.devtools.source.values import dotted

__all__ = ["examine_host_uses"]

_HOST = "sglang"
_ASKS = (
    "version",
    "hasattr",
    "getattr",
    "signature",
    "HAS_",
    "has_",
    "IS_",
    "is_",
    "_AVAILABLE",
    "_available",
)
"""Words in a condition that tests for a release or a feature."""

_MADE_FROM_FIELDS = {"Struct", "NamedTuple"}


class _Place(NamedTuple):
    """`guarded`: the program survives a failure here, or runs it only after a test."""

    guarded: bool = False
    instead: tuple[ast.stmt, ...] = ()
    """For code in a `try`: the statements of the handlers."""


def examine_host_uses(
    module: Module, lookup: Lookup, origin: PluginOrigin, host: HostSource
) -> Iterator[Finding]:
    """The findings on one module of a plugin."""
    reader = _Reader(module, lookup, origin, host)
    yield from reader.block(module.tree.body, _Place(), ())


class _Reader:
    def __init__(self, module: Module, lookup: Lookup, origin: PluginOrigin, host: HostSource) -> None:
        self._module, self._lookup, self._origin, self._host = module, lookup, origin, host
        self._imported = ImportedNames(module.tree, module.package)

    def block(self, body: list[ast.stmt], place: _Place, owners: tuple[ast.AST, ...]) -> Iterator[Finding]:
        for node in body:
            match node:
                case ast.ImportFrom():
                    yield from self._import_from(node, place)
                case ast.Import():
                    yield from self._import(node, place)
                case ast.If():
                    asks = any(word in ast.unparse(node.test) for word in _ASKS)
                    inside = _Place(True, place.instead) if asks else place
                    yield from self._expressions(node.test, place, owners)
                    yield from self.block(blocks_that_run(node), inside, owners)
                case _ if isinstance(node, TRY):
                    yield from self._try(node, place, owners)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    for part in (*node.decorator_list, *getattr(node, "bases", ())):
                        yield from self._expressions(part, place, owners)
                    yield from self.block(node.body, place, (*owners, node))
                case _:
                    yield from self._statement(node, place, owners)

    def _try(self, node: ast.Try, place: _Place, owners: tuple[ast.AST, ...]) -> Iterator[Finding]:
        goes_on = [one for one in node.handlers if not isinstance(one.body[-1], ast.Raise)]
        instead = tuple(step for one in node.handlers if handles_import_errors(one) for step in one.body)
        yield from self.block(node.body, _Place(True, instead) if goes_on else place, owners)
        for handler in node.handlers:
            yield from self.block(handler.body, _Place(True), owners)
        yield from self.block([*node.orelse, *node.finalbody], place, owners)

    def _statement(self, node: ast.stmt, place: _Place, owners: tuple[ast.AST, ...]) -> Iterator[Finding]:
        if isinstance(node, ast.Assign) and not place.guarded:
            yield from self._taken_apart(node, owners)
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                yield from self.block([part], place, owners)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                yield from self.block(part.body, place, owners)
            else:
                yield from self._expressions(part, place, owners)

    # Imports

    def _import_from(self, node: ast.ImportFrom, place: _Place) -> Iterator[Finding]:
        module = imported_module(node, self._module.package)
        if module.partition(".")[0] != _HOST:
            return
        for alias in node.names if self._has_module(module) else ():
            if alias.name == "*" or self._lookup.modules.has(f"{module}.{alias.name}"):
                continue
            answer = self._lookup.find(Address(module, (alias.name,)))
            if isinstance(answer, Absent):
                name = f"{module}.{alias.name}"
                yield from self._not_there(name, answer, node, place, self._homes(module, [alias.name]))
        if not self._has_module(module):
            absent, homes = Absent(f"there is no module {module}"), [one.name for one in node.names]
            yield from self._not_there(module, absent, node, place, self._homes(module, homes))

    def _import(self, node: ast.Import, place: _Place) -> Iterator[Finding]:
        for alias in node.names:
            if alias.name.partition(".")[0] == _HOST and not self._has_module(alias.name):
                absent = Absent(f"there is no module {alias.name}")
                yield from self._not_there(alias.name, absent, node, place, [])

    def _has_module(self, module: str) -> bool:
        return self._lookup.modules.has(module)

    def _homes(self, module: str, names: list[str]) -> list[str]:
        """The modules that define all the names, those of the same part of SGLang first."""
        homes = [set(self._host.homes_of(name)) for name in names]
        part = ".".join(module.split(".")[:2])
        return sorted(set.intersection(*homes), key=lambda one: (not one.startswith(part), one))

    def _not_there(
        self, name: str, absent: Absent, node: ast.stmt, place: _Place, homes: list[str]
    ) -> Iterator[Finding]:
        severity: Severity = "problem"
        instead = "the import fails"
        if place.guarded:
            stubs = [one for one in place.instead if isinstance(one, ast.ClassDef | ast.FunctionDef)]
            if not stubs or any(isinstance(one, ast.Import | ast.ImportFrom) for one in place.instead):
                return  # the plugin imports it from elsewhere, or does without
            severity = "warning"
            instead = (
                f"the import fails in silence, and the stand-ins from line {stubs[0].lineno} on are taken"
            )
        fix = f"import it from {' or '.join(homes[:3])}" if homes else _meant(absent)
        what = f"{self._host} has no {name}"
        yield Finding(
            "host-import-missing",
            severity,
            what,
            self._origin,
            f"{absent.why}; {instead}",
            fix,
            self._at(node),
        )

    # Calls

    def _expressions(self, root: ast.AST, place: _Place, owners: tuple[ast.AST, ...]) -> Iterator[Finding]:
        for node in ast.walk(root):
            if isinstance(node, ast.Call) and not place.guarded:
                yield from self._call(node, owners)

    def _call(self, node: ast.Call, owners: tuple[ast.AST, ...]) -> Iterator[Finding]:
        found = self._called(node, owners)
        if found is None:
            return
        definition, bound = found
        call = call_of(node, "")
        signature = self._signature(definition, bound)
        if signature is None or call.is_taken_by(signature):
            return
        name = ".".join(definition.address.path)
        yield Finding(
            "host-call-refused",
            "problem",
            f"{self._host} does not take the call {call.text}",
            self._origin,
            f"{definition.address.module}:{name} takes {signature}",
            _without(call, signature),
            self._at(node),
        )

    def _called(self, node: ast.Call, owners: tuple[ast.AST, ...]) -> tuple[Definition, int] | None:
        """The definition in SGLang of the called name, and how many of its parameters are bound implicitly; None if it
        is not, or may not be, a function or class of SGLang."""
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=name):
                return self._of_super(name, owners)
        parts = dotted(node.func)
        if parts is None or isinstance(node.func, ast.Subscript):
            return None
        answer = self._named(parts)
        if not isinstance(answer, Definition) or answer.address.module.partition(".")[0] != _HOST:
            return None
        return (answer, 0) if len(answer.address.path) == 1 and len(answer.nodes) == 1 else None

    def _named(self, parts: tuple[str, ...]) -> Answer | None:
        if parts[0] in self._module.scope.names:
            return self._lookup.find(Address(self._module.name, parts))
        if self._imported.meaning(parts) is None and self._module.scope.stars:
            return self._lookup.find(Address(self._module.name, parts))
        full = (self._imported.meaning(parts) or "").split(".")
        if full[0] != _HOST:
            return None
        count = modules_in(full[:-1], self._has_module)
        return self._lookup.find(Address(".".join(full[:count]), tuple(full[count:]))) if count else None

    def _of_super(self, name: str, owners: tuple[ast.AST, ...]) -> tuple[Definition, int] | None:
        """SGLang's method that ``super().name`` resolves to in a class with one base; None if unsure."""
        classes = [one for one in owners if isinstance(one, ast.ClassDef)]
        if not classes or len(classes[-1].bases) != 1 or not isinstance(owners[-1], ast.FunctionDef):
            return None
        base = dotted(classes[-1].bases[0])
        answer = self._named((*base, name)) if base is not None else None
        if not isinstance(answer, Definition) or answer.address.module.partition(".")[0] != _HOST:
            return None
        return answer, 0 if "staticmethod" in decorators(answer.node or owners[-1]) else 1

    def _signature(self, definition: Definition, bound: int) -> inspect.Signature | None:
        node = definition.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known = {"staticmethod", "classmethod", "property"}
            plain = not [
                one
                for one in decorators(node)
                if one not in known and one not in ("abstractmethod", "no_grad")
            ]
            return signature_of(node.args, bound) if plain else None
        if not isinstance(node, ast.ClassDef):
            return None
        init = self._lookup.find(Address(definition.address.module, (*definition.address.path, "__init__")))
        if isinstance(init, Definition) and isinstance(init.node, ast.FunctionDef):
            return signature_of(init.node.args, 1)
        return _of_fields(node)

    def _taken_apart(self, node: ast.Assign, owners: tuple[ast.AST, ...]) -> Iterator[Finding]:
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Call):
            return
        if any(isinstance(one, ast.Starred) for one in target.elts):
            return
        found = self._called(value, owners)
        given = values_given(found[0].node) if found is not None else None
        if found is None or given is None or given == len(target.elts):
            return
        name = ".".join(found[0].address.path)
        yield Finding(
            "override-values",
            "problem",
            f"{len(target.elts)} values are taken from {name}, and in {self._host} it gives {given}",
            self._origin,
            f"{ast.unparse(node)}",
            f"take {given} values",
            self._at(node),
        )

    def _at(self, node: ast.stmt | ast.expr) -> str:
        return f"{self._module.path}:{node.lineno}"


def _without(call: Call, signature: inspect.Signature) -> str:
    """The fix: the keywords to leave out, else the signature to call with."""
    takes_all = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    unknown = [one for one in call.keywords if one not in signature.parameters and not takes_all]
    return f"leave out {', '.join(unknown)}" if unknown else f"call it with {signature}"


def _of_fields(node: ast.ClassDef) -> inspect.Signature | None:
    """The signature of the `__init__` generated from the fields of a struct or dataclass without other bases."""
    bases = [(dotted(one) or ("?",))[-1] for one in node.bases]
    is_made = (bases and set(bases) <= _MADE_FROM_FIELDS) or (not bases and "dataclass" in decorators(node))
    if not is_made:
        return None
    keyword_only = any(one.arg == "kw_only" for one in node.keywords)
    kind = inspect.Parameter.KEYWORD_ONLY if keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    found, has_default = [], False
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            if "ClassVar" in ast.unparse(one.annotation):
                continue
            if isinstance(one.value, ast.Call) and any(word.arg == "init" for word in one.value.keywords):
                return None
            has_default = has_default or one.value is not None
            default = None if has_default else inspect.Parameter.empty
            found.append(inspect.Parameter(one.target.id, kind, default=default))
    return inspect.Signature(found)


def _meant(absent: Absent) -> str:
    near = [one.replace(":", ".") for one in absent.nearest]
    return (
        f"did you mean {' or '.join(near)}?"
        if near
        else "write it without, or guard it for the releases that have it"
    )
