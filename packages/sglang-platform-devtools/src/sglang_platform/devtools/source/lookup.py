"""Where a name is defined: followed from source to source, along imports, re-exports, aliases and base classes."""

from __future__ import annotations

import ast
import builtins
from typing import NamedTuple

from sglang_platform.core.installed.address import Address, nearest
from sglang_platform.devtools.source.answers import Absent, Answer, Definition, Unsure, most_certain
from sglang_platform.devtools.source.lazy import lazy_origin, may_make
from sglang_platform.devtools.source.module import Module, Modules
from sglang_platform.devtools.source.scope import Base, Binding, ClassScope, Scope

__all__ = ["Lookup"]

_ADDS_NOTHING = {"object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol"}
"""Base classes without methods to inherit."""


class Holder(NamedTuple):
    """A class whose attributes are looked up."""

    module: Module
    name: Address
    scope: ClassScope
    around: Scope
    """The scope that encloses the class statement."""


class Lookup:
    """Finds names in `modules`, and in `outside` for modules that those lack. Answers are cached."""

    def __init__(self, modules: Modules, outside: Lookup | None = None) -> None:
        self.modules = modules
        self._outside = outside
        self._answers: dict[Address, Answer] = {}

    def find(self, address: Address) -> Answer:
        """Whether the module defines, imports or inherits the name, and where it is defined."""
        return self._find(address, frozenset())

    def at_home(self, module: str) -> Lookup | None:
        """The lookup that has a module: this one or `outside`; None if neither has it."""
        if self.modules.has(module):
            return self
        return self._outside.at_home(module) if self._outside is not None else None

    def module_of(self, definition: Definition) -> Module | None:
        """The module that contains a definition."""
        home = self.at_home(definition.address.module)
        return home.modules.module(definition.address.module) if home is not None else None

    def class_scope(self, definition: Definition) -> ClassScope | None:
        """The scope of the class that is defined."""
        module, node = self.module_of(definition), definition.node
        return module.class_scope(node) if module is not None and isinstance(node, ast.ClassDef) else None

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
        name, (first, *_) = address
        module = self.modules.module(name)
        if module is None:
            why = self.modules.unreadable(name)
            return Unsure(why, is_elsewhere=True) if why else self._absent(address, ())
        scope = module.scope
        if first in scope.names:
            return self._bound(module, address, scope.names[first], seen)
        starred = self._starred(module, address, seen)
        if starred is not None:
            return starred
        if first in scope.maybe:
            return Unsure(f"{name} has {first!r} only once {scope.maybe[first]}")
        if "__getattr__" in scope.names:
            return self._made_on_use(module, address, seen)
        if scope.is_open:
            return Unsure(f"{name} makes names as it runs")
        return self._absent(address, tuple(scope.names))

    def _absent(self, address: Address, names: tuple[str, ...]) -> Absent:
        first = address.path[0]
        close = nearest(first, (*names, *self.modules.children(address.module)))
        return Absent(f"{address.module} has no {first!r}", tuple(f"{address.module}:{one}" for one in close))

    def _bound(
        self, module: Module, address: Address, bindings: list[Binding], seen: frozenset[Address]
    ) -> Answer:
        """The answer for a name of the module with several bindings.

        A fallback counts only if the import that it replaces cannot be found, since a serving process has the import.
        Even then the import may have names that the fallback lacks.
        """
        if len(address.path) == 1 and all(one.origin is None and one.alias is None for one in bindings):
            return Definition(address, tuple(one.node for one in bindings if one.node is not None))
        preferred = [one for one in bindings if not one.fallback]
        answers = [self._alternative(module, address, one, seen) for one in preferred]
        if all(isinstance(one, Unsure) and one.is_elsewhere for one in answers):
            fallbacks = [one for one in bindings if one.fallback]
            answers += [self._alternative(module, address, one, seen) for one in fallbacks]
        return most_certain(answers)

    def _alternative(
        self, module: Module, address: Address, binding: Binding, seen: frozenset[Address]
    ) -> Answer:
        (first, *rest_), rest = address.path, address.path[1:]
        if binding.origin is not None:
            return self._imported(address, binding, rest, seen)
        here = Address(address.module, (first,))
        nodes = () if binding.node is None else (binding.node,)
        if isinstance(binding.node, ast.ClassDef) and rest_:
            scope = module.class_scope(binding.node)
            return self._in_class(Holder(module, here, scope, module.scope), rest, seen)
        alias = binding.alias
        if alias is not None and alias[0] != first:
            answer = self._find(Address(address.module, (*alias, *rest)), seen)
            if isinstance(answer, Definition):
                return answer._replace(via=(address, *answer.via))
            if rest and (isinstance(answer, Unsure) or answer.holder is not None):
                return answer
        if rest:
            return Unsure(f"{here} is no class that the source shows")
        return Definition(address, nodes)

    def _imported(
        self, address: Address, binding: Binding, rest: tuple[str, ...], seen: frozenset[Address]
    ) -> Answer:
        """Follow an import to its source."""
        assert binding.origin is not None
        source, attr = binding.origin
        answer = self._follow(address, source, attr, rest, seen)
        if isinstance(answer, Unsure) and answer.is_elsewhere and not rest and not binding.guarded:
            return Definition(address)  # without the name, the module itself could not be imported
        return answer

    def _follow(
        self, address: Address, source: str, attr: str | None, rest: tuple[str, ...], seen: frozenset[Address]
    ) -> Answer:
        home = self.at_home(source)
        if home is None:
            why = f"{address.module} imports it from {source}, which is not part of {self.modules.called}"
            return Unsure(why, is_elsewhere=True)
        if attr is None:
            answer = home._find(Address(source, rest), seen) if rest else Definition(address)
        else:
            answer = home._find(Address(source, (attr, *rest)), seen)
            submodule = f"{source}.{attr}"
            not_there = isinstance(answer, Absent) and answer.holder is None
            unreadable = isinstance(answer, Unsure) and home.modules.module(source) is None
            if (not_there or unreadable) and (inner := self.at_home(submodule)) is not None:
                answer = inner._find(Address(submodule, rest), seen) if rest else Definition(address)
        return answer._replace(via=(address, *answer.via)) if isinstance(answer, Definition) else answer

    def _starred(self, module: Module, address: Address, seen: frozenset[Address]) -> Answer | None:
        """The answer through ``import *``; None if no star import can bind the name."""
        unsure: Unsure | None = None
        for star in module.scope.stars:
            home = self.at_home(star.module)
            origin = home.modules.module(star.module) if home is not None else None
            if home is None:
                why = (
                    f"{module.name} imports * from {star.module}, which is not part of {self.modules.called}"
                )
                unsure = unsure or Unsure(why, is_elsewhere=True)
                continue
            offered = origin.scope.offers(address.path[0]) if origin is not None else None
            if offered is False:
                continue
            answer = self._follow(address, star.module, address.path[0], address.path[1:], seen)
            if offered and not (isinstance(answer, Absent) and answer.holder is None):
                return answer
            if offered is None and not isinstance(answer, Absent):
                unsure = unsure or Unsure(f"{star.module} computes its __all__, or cannot be read")
        return unsure

    def _made_on_use(self, module: Module, address: Address, seen: frozenset[Address]) -> Answer:
        """The answer for a module with a `__getattr__`, from its imports and tables of names."""
        first, rest = address.path[0], address.path[1:]
        origin = lazy_origin(module, first, lambda name: self.at_home(name) is not None)
        if origin is not None:
            return self._follow(address, *origin, rest, seen)
        if may_make(module, first):
            return Unsure(f"{module.name} makes names on first use, in its __getattr__")
        return self._absent(address, tuple(module.scope.names))

    def _in_class(self, holder: Holder, path: tuple[str, ...], seen: frozenset[Address]) -> Answer:
        module, name, scope, _ = holder
        first, rest = path[0], path[1:]
        here = Address(name.module, (*name.path, first))
        if first in scope.names:
            return self._class_attribute(holder, here, rest, seen)
        if first in module.scope.set_on.get(scope.node.name, ()):
            return Unsure(f"{here} is no class that the source shows") if rest else Definition(here)
        unsure: Unsure | None = None
        if scope.is_open and not (scope.only_adds_dunders and not first.startswith("__")):
            unsure = Unsure(f"{name} has a decorator, a metaclass or code that may add names")
        elif scope.node.name in module.scope.set_unread:
            unsure = Unsure(f"{module.name} sets attributes of {scope.node.name} whose names it computes")
        elif scope.node.name in module.scope.remade and module.spells(first):
            unsure = Unsure(f"{module.name} makes another class of {scope.node.name}, under its name")
        close: tuple[str, ...] = ()
        for base in scope.bases:
            answer = self._inherited(holder, base, path, seen)
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
        why = f"{name} has no {first!r}" + (
            ", only its instances do" if scope.is_set_on_instances(first) else ""
        )
        near = tuple(f"{name}.{one}" for one in nearest(first, scope.names))
        return Absent(why, near + close, name)

    def _class_attribute(
        self, holder: Holder, here: Address, rest: tuple[str, ...], seen: frozenset[Address]
    ) -> Answer:
        """An attribute that the class body itself binds."""
        bindings = holder.scope.names[here.path[-1]]
        answers: list[Answer] = []
        for binding in bindings:
            alias = binding.alias
            if binding.origin is not None:
                answers.append(self._imported(here, binding, rest, seen))
            elif rest and isinstance(binding.node, ast.ClassDef):
                inner = holder.module.class_scope(binding.node)
                answers.append(self._in_class(Holder(holder.module, here, inner, holder.scope), rest, seen))
            elif alias is not None and alias[0] in holder.scope.names and alias[0] != here.path[-1]:
                target = Address(here.module, (*holder.name.path, *alias, *rest))
                answer = self._find(target, seen)
                is_found = isinstance(answer, Definition)
                answers.append(answer._replace(via=(here, *answer.via)) if is_found else answer)  # type: ignore[call-arg,union-attr]
            elif rest:
                answers.append(Unsure(f"{here} is no class that the source shows"))
            else:
                nodes = [one.node for one in bindings if one.node is not None]
                return Definition(here, tuple(nodes))
        return most_certain(answers)

    def _inherited(
        self, holder: Holder, base: Base, path: tuple[str, ...], seen: frozenset[Address]
    ) -> Answer:
        module = holder.module
        if base is None:
            return Unsure(f"a base class in {module.name} is computed")
        if base[0] in holder.around.names and holder.around is not module.scope:
            return self._find(Address(module.name, (*holder.name.path[:-1], *base, *path)), seen)
        foreign = self._foreign_name(module, base)
        if foreign in _ADDS_NOTHING:
            return Absent("")
        live = self._live(module, base)
        if live is not None:
            found = Address(live.__module__, (*live.__qualname__.split("."), path[0]))
            return Definition(found) if hasattr(live, path[0]) else Absent("", holder=found)
        answer = self._find(Address(module.name, (*base, *path)), seen)
        if foreign is not None and isinstance(answer, Unsure) and answer.is_elsewhere:
            why = f"the base class {foreign} is not part of {self.modules.called}, and cannot be read here"
            return Unsure(why, is_elsewhere=True)
        return answer

    def _live(self, module: Module, base: tuple[str, ...]) -> type | None:
        """A base class that is built in, or that this process has already loaded."""
        bindings = module.scope.names.get(base[0])
        if bindings is None:
            found = getattr(builtins, base[0], None) if len(base) == 1 else None
            return found if isinstance(found, type) and not module.scope.stars else None
        origin = bindings[0].origin
        if origin is None:
            return None
        home = self.at_home(origin[0])
        full = ".".join((*(part for part in origin if part), *base[1:]))
        return home.modules.live_class(full) if home is not None else None

    def _foreign_name(self, module: Module, base: tuple[str, ...]) -> str | None:
        """The full name of a base class that is not among these modules; None for one that is."""
        bindings = module.scope.names.get(base[0])
        if bindings is None:
            return None if module.scope.stars else ".".join(base)
        origin = bindings[0].origin
        if origin is None or self.modules.has(origin[0]):
            return None
        return ".".join((*(part for part in origin if part), *base[1:]))
