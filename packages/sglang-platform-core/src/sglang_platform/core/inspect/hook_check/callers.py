"""Does anything in a host reach a hooked attribute? Told from how the sources use its name.

A hook stands in an attribute's place once its module has run. It is bypassed where nothing reads the attribute after
that: no code names it, or the only uses are in its own module while that runs (an entry of a table, an argument of a
decorator, a default), or under ``if __name__ == "__main__"``, where the running module is another one. Whatever leaves
doubt counts as a caller: any attribute of a method's name on any object, any string that spells it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sglang_platform.core.hooks.targets import Address
from sglang_platform.core.inspect.hook_check.lookup import Absent, Definition, Lookup
from sglang_platform.core.inspect.hook_check.sources import DefinitionNode, ModuleSource
from sglang_platform.core.inspect.hook_check.uses import MAIN, Bindings, ModuleUses, Use

__all__ = ["Bypass", "Callers"]

_FORMATTED = re.compile(rb"""getattr\(\s*[\w.]+,\s*(f?)(["'])([^"'\n]*)\2(\s*\+)?""")
_STAR = re.compile(rb"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import \*", re.M)
_CALL_SO_FAR = re.compile(rb"[ \t]+(?:[\w.]+(?:, [\w.]+)* = )?(?:(?:return|await|if|elif|not) )*[\w.]+")


class Bypass(NamedTuple):
    """Why nobody reaches an attribute. `held`: something has kept the original, which a search may find."""

    why: str
    held: bool


class Callers:
    """The users of definitions in one host."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._host = lookup.host
        self._uses: dict[str, ModuleUses] = {}
        self._bindings: dict[str, Bindings] = {}
        self._patterns: list[re.Pattern[str]] | None = None
        self._stars: dict[str, list[str]] | None = None

    def bypass(self, definition: Definition) -> Bypass | None:
        """Why no caller reaches the attribute; None where one does, or where that cannot be excluded."""
        module, path = definition.address
        source = self._host.module(module)
        name = path[-1]
        if source is None or not definition.nodes or (name.startswith("__") and name.endswith("__")):
            return None
        if len(path) == 1:
            held = self._uses_of_name(source, definition.nodes, name)
            if held is None or (not held and _has_bases(definition)):
                return None
            return _explained(held)
        return self._bypass_of_method(source, definition)

    def _bypass_of_method(self, source: ModuleSource, definition: Definition) -> Bypass | None:
        name, path = definition.address.path[-1], definition.address.path
        owner = self._lookup.find(Address(source.name, path[:-1]))
        if not isinstance(owner, Definition) or self._lookup.has_foreign_base(owner.address):
            return None  # a base class of another distribution may call it
        if len(owner.address.path) == 1 and not _has_bases(owner):
            held = self._uses_of_name(source, owner.nodes, owner.address.path[0])
            if held is not None and all(map(_is_main, held)):
                return Bypass(f"of its class {owner.address.path[0]}: {_explained(held).why}", False)
        if self._plainly_called(source.name, name):
            return None
        own = self._uses_of(source)
        uses = [*own.attributes.get(name, ()), *own.strings.get(name, ())]
        uses = _outside(uses, definition.nodes)
        uses += [use for use in own.names.get(name, ()) if not use.late]
        if any(use.late for use in uses):
            return None
        for other in self._host.containing(name.encode()):
            if other != source.name and self._accesses(other, name):
                return None
        return None if self._put_together(name) else _explained(uses)

    def _uses_of_name(
        self, source: ModuleSource, nodes: tuple[DefinitionNode, ...], name: str
    ) -> Sequence[Use] | None:
        """The uses of a module's name while the module runs, if there are no others; else None."""
        if self._plainly_imported(source.name, name) or self._is_command(source.name, name):
            return None
        own = self._uses_of(source)
        uses = _outside([*own.names.get(name, ()), *own.strings.get(name, ())], nodes)
        if any(use.late for use in uses):
            return None
        homes = self._star_importers(source.name)
        bases = [home.rpartition(".")[2].encode() for home in homes]
        inside = tuple(f"{home}." for home in homes if self._host.is_package(home))
        spelled = [word.encode() for word in (f'"{name}"', f"'{name}'", f'.{name}"', f':{name}"')]
        for other in self._host.containing(name.encode()):
            if other == source.name:
                continue
            text = self._host.text(other)
            near = other.startswith(inside) or any(word in text for word in (*bases, *spelled))
            if near and self._imports(other, source.name, name):
                return None
        return None if self._put_together(name) else uses

    def _is_command(self, module: str, name: str) -> bool:
        return re.search(rf"\b{re.escape(module)}\s*:\s*{name}\b", self._host.entry_points) is not None

    def _plainly_called(self, home: str, name: str) -> bool:
        """The quick proof for most methods: a line of code that starts with a call of it."""
        access = b"." + name.encode() + b"("
        for module in self._host.served(near=home):
            text = self._host.text(module)
            at = text.find(access)
            while at >= 0:
                if _CALL_SO_FAR.fullmatch(text, text.rfind(b"\n", 0, at) + 1, at):
                    return True
                at = text.find(access, at + 1)
        return False

    def _plainly_imported(self, home: str, name: str) -> bool:
        """The quick proof for most functions and classes: an import of it that no type checker's block holds."""
        found = re.compile(
            rb"^from "
            + re.escape(home).encode()
            + rb" import (?:\([^)]*?|[^\n(]*?)\b"
            + name.encode()
            + rb"\b",
            re.M,
        )
        return any(
            found.search(self._host.text(module))
            for module in self._host.containing(name.encode(), near=home)
            if module != home
        )

    def _accesses(self, other: str, name: str) -> bool:
        """Does another module access an attribute of this name, or spell it?"""
        module = self._host.module(other)
        if module is None:
            return True
        uses, bindings = self._uses_of(module), self._bindings_of(module)
        if name in uses.strings:
            return True
        for use in uses.attributes.get(name, ()):
            meaning = bindings.meaning(use.prefix or ())
            foreign = meaning is not None and (
                self._host.has(meaning) or not self._host.has(meaning.split(".")[0])
            )
            if not foreign:
                return True
        return False

    def _imports(self, other: str, home: str, name: str) -> bool:
        """Does another module import the name from where it can be had, access it on that module, or spell it?"""
        module = self._host.module(other)
        if module is None:
            return True
        uses, bindings = self._uses_of(module), self._bindings_of(module)
        if name in uses.strings:
            return True
        for origin, imported, _ in bindings.from_imports:
            if imported == name and self._is_same(origin, name, home):
                return True
            if imported == "*" and name in uses.names and self._is_same(origin, name, home):
                return True
        for use in uses.attributes.get(name, ()):
            meaning = bindings.meaning(use.prefix or ())
            if meaning is not None:
                if self._is_same(meaning, name, home):
                    return True
            elif use.prefix not in (("self",), ("cls",)):
                return True  # of an object that may well be the module
        return False

    def _is_same(self, module: str, name: str, home: str) -> bool:
        """Is `module.name` the thing that `home` defines?"""
        if module == home or not self._host.has(module):
            return module == home
        found = self._lookup.find(Address(module, (name,)))
        if isinstance(found, Definition):
            return found.address == Address(home, (name,))
        return not isinstance(found, Absent)

    def _star_importers(self, home: str) -> list[str]:
        """`home` and all modules that have its names by `from ... import *`: no importer of those spells `home`."""
        if self._stars is None:
            self._stars = {}
            for module in self._host.containing(b"import *"):
                package = module if self._host.is_package(module) else module.rpartition(".")[0]
                for dots, name in _STAR.findall(self._host.text(module)):
                    above = package.split(".")[: len(package.split(".")) - len(dots) + 1] if dots else []
                    origin = ".".join((*above, name.decode())).rstrip(".")
                    self._stars.setdefault(origin, []).append(module)
        found = [home]
        for one in found:
            found += [module for module in self._stars.get(one, ()) if module not in found]
        return found

    def _put_together(self, name: str) -> bool:
        """Is there a `getattr` whose name is made from parts, and could be this one?"""
        if self._patterns is None:
            self._patterns = []
            for module in self._host.containing(b"getattr("):
                for formatted, _, text, added in set(_FORMATTED.findall(self._host.text(module))):
                    parts = re.split(r"\{[^}]*\}", text.decode()) if formatted else [text.decode()]
                    if len("".join(parts)) > 2 and (len(parts) > 1 or added):
                        pattern = r"\w*".join(map(re.escape, parts)) + (r"\w+" if added else "")
                        self._patterns.append(re.compile(pattern))
        return any(pattern.fullmatch(name) for pattern in self._patterns)

    def _uses_of(self, module: ModuleSource) -> ModuleUses:
        if module.name not in self._uses:
            self._uses[module.name] = ModuleUses(module)
        return self._uses[module.name]

    def _bindings_of(self, module: ModuleSource) -> Bindings:
        if module.name not in self._bindings:
            self._bindings[module.name] = Bindings(module)
        return self._bindings[module.name]


def _is_main(use: Use) -> bool:
    return use.how == MAIN


def _has_bases(definition: Definition) -> bool:
    """A class that is known through its bases may be found without its name, by `__subclasses__` or a scan."""
    return any(isinstance(node, ast.ClassDef) and node.bases for node in definition.nodes)


def _outside(uses: Iterable[Use], nodes: Iterable[ast.AST]) -> list[Use]:
    """The uses that are not inside the definition itself."""
    spans = [(getattr(one, "lineno", 0), getattr(one, "end_lineno", 0)) for one in nodes]
    return [use for use in uses if not any(first <= use.line <= last for first, last in spans)]


def _explained(uses: Sequence[Use]) -> Bypass:
    if not uses:
        return Bypass(
            "nothing in the host names it but its definition; only code from outside could call it", False
        )
    held = list(dict.fromkeys(f"{use.how} (line {use.line})" for use in uses))
    more = f" and {len(held) - 2} more" if len(held) > 2 else ""
    why = f"only its own module uses it, as it runs and before a hook can stand there: {', '.join(held[:2])}{more}"
    return Bypass(why, not all(_is_main(use) for use in uses))
