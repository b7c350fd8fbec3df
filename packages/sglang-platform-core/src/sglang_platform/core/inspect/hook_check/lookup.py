"""Where a target is defined: read from a host's sources, along imports, re-exports and base classes."""

from __future__ import annotations

import ast
import sys
from typing import NamedTuple

from sglang_platform.core.hooks import existence
from sglang_platform.core.hooks.targets import Address, MissingModule, Target, nearest, parse, resolve
from sglang_platform.core.inspect.hook_check.lazy import lazy_origin, makes_names, may_make
from sglang_platform.core.inspect.hook_check.sources import (
    DefinitionNode,
    HostSource,
    ModuleSource,
    definitions,
    statements,
)
from sglang_platform.core.source.scope import Base, ClassScope, Scope

__all__ = ["Absent", "Definition", "Lookup", "Unsure"]

_ADDS_NOTHING = {"object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol"}


class Definition(NamedTuple):
    """A target that exists. `nodes` is empty where it is not the host's own, or its text does not show it."""

    address: Address
    """The module and the qualified name that define it: of the base class, for an inherited method."""
    nodes: tuple[DefinitionNode, ...] = ()
    via: tuple[Address, ...] = ()
    """The names it was imported through, from the one that was asked for."""

    @property
    def node(self) -> DefinitionNode | None:
        """The last one counts, as it does for Python. A property is its getter, an overload its implementation."""
        return self.nodes[-1] if self.nodes else None


class Absent(NamedTuple):
    """A target that does not exist. `defined` names the class that exists and lacks the attribute, if that is why."""

    why: str
    nearest: tuple[str, ...] = ()
    holder: Address | None = None


class Unsure(NamedTuple):
    """The sources do not tell."""

    why: str


Answer = Definition | Absent | Unsure


class Lookup:
    """Finds targets in one host. Answers are kept."""

    def __init__(self, host: HostSource) -> None:
        self.host = host
        self._answers: dict[Address, Answer] = {}

    def split(self, target: Target) -> Address | Absent:
        """The target's module and attribute path: the longest prefix that is a module, the last part never."""
        parts = target.key.split(".")
        first = len(target.module.split(".")) if target.module else 1
        count = next((n for n in range(len(parts) - 1, 0, -1) if self.host.has(".".join(parts[:n]))), 0)
        if count < first:
            above = ".".join(parts[:count])
            prefix = f"{above}." if above else ""
            close = nearest(parts[count], self.host.children(above))
            where = f"the package {above!r} has" if above else f"{self.host.label} has"
            return Absent(f"{where} no module {parts[count]!r}", tuple(prefix + name for name in close))
        return Address(".".join(parts[:count]), tuple(parts[count:]))

    def find(self, address: Address) -> Answer:
        """Does the module define, import or inherit it, and where is it written?"""
        return self._find(address, frozenset())

    def _find(self, address: Address, seen: frozenset[Address]) -> Answer:
        known = self._answers.get(address)
        if known is None:
            if address in seen:
                return Unsure(f"{address} is imported in a circle")
            known = self._look_up(address, seen | {address})
            if not seen or not isinstance(known, Unsure):
                self._answers[address] = known
        return known

    def _look_up(self, address: Address, seen: frozenset[Address]) -> Answer:
        name, (first, *rest_) = address
        rest = tuple(rest_)
        module = self.host.module(name)
        if module is None:
            if self.host.path(name) is not None:
                return Unsure(f"{name} cannot be parsed by Python {sys.version.partition(' ')[0]}")
            return self._absent(address, ())
        scope = module.scope
        if first in scope.classes and rest:
            answer = self._in_class(module, Address(name, (first,)), scope.classes[first], rest, seen)
            if not isinstance(answer, Absent) or first not in scope.imports:
                return answer  # else the class stands in for one whose import failed
        if first in scope.imports and (rest or first not in scope.bound):
            return self._follow(address, *scope.imports[first], rest, seen)
        if first in scope.bound:
            nodes = module.definitions.get(first, [])
            alias = nodes[-1] if len(nodes) == 1 else None
            if isinstance(alias, ast.Name) and alias.id != first:
                return self._through(address, self._find(Address(name, (alias.id, *rest)), seen))
            if rest:
                return Unsure(f"{name}:{first} is no class that the source shows")
            return Definition(address, _without_accessories(nodes))
        for star in scope.stars:
            found = self._find(Address(star, address.path), seen) if self.host.has(star) else None
            if found is not None and not isinstance(found, Absent):
                return self._through(address, found)
        outside = [star for star in scope.stars if not self.host.has(star)]
        if outside:
            return Unsure(f"{name} imports * from {', '.join(outside)}, which is not part of the host")
        if "__getattr__" in scope.bound:
            return self._made_on_use(module, address, seen)
        if scope.open and makes_names(module.tree.body):
            return Unsure(f"{name} makes names as it runs")
        return self._absent(address, (*scope.bound, *scope.imports))

    def _absent(self, address: Address, names: tuple[str, ...]) -> Absent:
        first = address.path[0]
        close = nearest(first, (*names, *self.host.children(address.module)))
        return Absent(f"{address.module} has no {first!r}", tuple(f"{address.module}:{one}" for one in close))

    def _through(self, address: Address, answer: Answer) -> Answer:
        return answer._replace(via=(address, *answer.via)) if isinstance(answer, Definition) else answer

    def _follow(
        self, address: Address, module: str, attr: str | None, rest: tuple[str, ...], seen: frozenset[Address]
    ) -> Answer:
        """Go on where the name was imported from."""
        if attr is None:
            if not self.host.has(module):
                return self._outside(address, (module, *rest))
            return (
                self._through(address, self._find(Address(module, rest), seen))
                if rest
                else Definition(address)
            )
        if not self.host.has(module):
            return self._outside(address, (module, attr, *rest))
        answer = self._find(Address(module, (attr, *rest)), seen)
        submodule = f"{module}.{attr}"
        if isinstance(answer, Absent) and answer.holder is None and self.host.has(submodule):
            answer = self._find(Address(submodule, rest), seen) if rest else Definition(address)
        return self._through(address, answer)

    def _outside(self, address: Address, dotted: tuple[str, ...]) -> Answer:
        """Imported from another distribution: the name exists; what is inside of it is for that one to say."""
        if len(address.path) == 1:
            return Definition(address)
        return Unsure(f"{address.module} imports it from {dotted[0]}, which is not part of the host")

    def _made_on_use(self, module: ModuleSource, address: Address, seen: frozenset[Address]) -> Answer:
        """A module with a `__getattr__`: its imports and the tables of names tell what it makes."""
        first, rest = address.path[0], address.path[1:]
        origin = lazy_origin(module, first, self.host.has)
        if origin is not None:
            return self._follow(address, *origin, rest, seen)
        if may_make(module, first):
            return Unsure(f"{module.name} makes names on first use, in its __getattr__")
        return self._absent(address, (*module.scope.bound, *module.scope.imports))

    def _in_class(
        self,
        module: ModuleSource,
        name: Address,
        scope: ClassScope,
        path: tuple[str, ...],
        seen: frozenset[Address],
    ) -> Answer:
        first, rest = path[0], path[1:]
        here = Address(name.module, (*name.path, first))
        if first in scope.classes and rest:
            return self._in_class(module, here, scope.classes[first], rest, seen)
        if first in scope.bound or f"{scope.name}.{first}" in module.scope.attributes:
            if rest:
                return Unsure(f"{here} is no class that the source shows")
            nodes = [one for body in self._bodies(name) for one in definitions(body).get(first, [])]
            alias = nodes[-1] if len(nodes) == 1 else None
            if isinstance(alias, ast.Name) and alias.id in scope.bound and alias.id != first:
                target = Address(name.module, (*name.path, alias.id))
                return self._through(here, self._find(target, seen))
            return Definition(here, _without_accessories(nodes))
        unsure = None
        if scope.open and not (scope.only_adds_dunders and not first.startswith("__")):
            unsure = Unsure(f"{name} has a decorator, a metaclass or code that may add names")
        close: tuple[str, ...] = ()
        for base in scope.bases:
            answer = self._inherited(module, base, path, seen)
            if isinstance(answer, Definition):
                return answer
            if isinstance(answer, Unsure):
                unsure = unsure or answer
            else:
                close += answer.nearest
        if hasattr(object, first):
            return Definition(here)
        if unsure is not None:
            return unsure
        why = f"{name} has no {first!r}"
        if self._set_on_instances(name, first):
            why += ", only its instances do"
        near = tuple(f"{name}.{one}" for one in nearest(first, scope.bound))
        return Absent(why, near + close, name)

    def _inherited(
        self, module: ModuleSource, base: Base, path: tuple[str, ...], seen: frozenset[Address]
    ) -> Answer:
        if base is None:
            return Unsure(f"a base class in {module.name} is computed")
        foreign = self._foreign_name(module, base)
        if foreign is None or base[0] in module.scope.bound:
            answer = self._find(Address(module.name, (*base, *path)), seen)
            if foreign is None or not isinstance(answer, Absent):
                return answer
        return _in_foreign_class(foreign, path[0])

    def _foreign_name(self, module: ModuleSource, base: tuple[str, ...]) -> str | None:
        """The full name of a base class that is not the host's; None for one that is."""
        origin = module.scope.imports.get(base[0])
        if origin is None:
            return None if base[0] in module.scope.bound else base[0]
        if self.host.has(origin[0]):
            return None
        return ".".join((*(part for part in origin if part), *base[1:]))

    def has_foreign_base(self, name: Address, seen: frozenset[Address] = frozenset()) -> bool:
        """Does a class stand on one of another distribution, which may call its methods, or on an unknown one?"""
        if name in seen:
            return True
        module = self.host.module(name.module)
        scope: Scope | None = module.scope if module is not None else None
        for part in name.path:
            scope = scope.classes.get(part) if scope is not None else None
        if module is None or not isinstance(scope, ClassScope):
            return True
        for base in scope.bases:
            foreign = self._foreign_name(module, base) if base is not None else ""
            if foreign is None and base is not None:
                found = self.find(Address(module.name, base))
                if not isinstance(found, Definition) or self.has_foreign_base(found.address, seen | {name}):
                    return True
            elif foreign not in _ADDS_NOTHING:
                return True
        return False

    def _bodies(self, name: Address) -> list[list[ast.stmt]]:
        """The bodies of a class; more than one where branches define it differently."""
        module = self.host.module(name.module)
        bodies = [module.tree.body] if module is not None else []
        for part in name.path:
            bodies = [
                node.body
                for body in bodies
                for node in statements(body)
                if isinstance(node, ast.ClassDef) and node.name == part
            ]
        return bodies

    def _set_on_instances(self, name: Address, attribute: str) -> bool:
        if f"self.{attribute}".encode() not in self.host.text(name.module):
            return False
        return any(
            isinstance(node, ast.Attribute)
            and node.attr == attribute
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            for body in self._bodies(name)
            for statement in body
            for node in ast.walk(statement)
        )


def _in_foreign_class(dotted: str, attribute: str) -> Answer:
    """A base class of another distribution: read its source where it is installed, without importing it."""
    if dotted in _ADDS_NOTHING:
        return Absent("")
    module, _, name = dotted.rpartition(".")
    top = dotted.partition(".")[0]
    if top in sys.stdlib_module_names or not module:
        live = getattr(sys.modules.get(module or "builtins"), name, None)
        if isinstance(live, type):
            return (
                Definition(Address(module or "builtins", (name, attribute)))
                if hasattr(live, attribute)
                else Absent("")
            )
    unsure = Unsure(f"the base class {dotted} is not part of the host, and cannot be read here")
    if not module:
        return unsure
    address = resolve(parse(f"{dotted}.{attribute}"))
    if isinstance(address, MissingModule):
        return unsure
    verdict = existence.check(address)
    if verdict.answer == "exists":
        return Definition(address)
    return Absent("") if verdict.answer == "missing" else unsure


def _without_accessories(nodes: list[DefinitionNode]) -> tuple[DefinitionNode, ...]:
    """Without the setters of a property and the overloads of a function, which nobody calls by its name."""

    def is_accessory(node: DefinitionNode) -> bool:
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            ast.unparse(one).rpartition(".")[2] in ("setter", "deleter", "overload")
            for one in node.decorator_list
        )

    return tuple(node for node in nodes if not is_accessory(node))
