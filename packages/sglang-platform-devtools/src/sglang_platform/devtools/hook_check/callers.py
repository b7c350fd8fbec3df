"""Finds out whether anything in a host reaches a hooked attribute, from how the sources use its name.

A hook replaces an attribute once its module has run. It is bypassed if nothing reads the attribute after that: no code
names it, or the only uses are in its own module during import (an entry of a table, an argument of a decorator, a
default), or under ``if __name__ == "__main__"``, which runs in a second copy of the module. Doubtful uses count as
callers: any attribute of a method's name on any object, any string that spells it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.hook_check.foreign_bases import has_foreign_base
from sglang_platform.devtools.hook_check.text_search import TextSearch
from sglang_platform.devtools.hook_check.uses import MAIN, Use, Uses, uses_in
from sglang_platform.devtools.source.answers import Absent, Definition
from sglang_platform.devtools.source.imports import ImportedNames
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["Bypass", "Callers"]


class Bypass(NamedTuple):
    """Why no caller reaches an attribute. `held`: something keeps a reference to the original, which may be found."""

    why: str
    held: bool


class Read(NamedTuple):
    """The uses in one module, and the names that its imports bind."""

    uses: Uses
    imported: ImportedNames


class Callers:
    """The users of definitions in one host."""

    def __init__(self, host: SourceTree, lookup: Lookup) -> None:
        self._host, self._lookup = host, lookup
        self._text = TextSearch(host)
        self._read: dict[str, Read] = {}

    def bypass(self, definition: Definition) -> Bypass | None:
        """Why no caller reaches the attribute; None if one does or may."""
        home, path = definition.address
        module, name = self._host.module(home), path[-1]
        is_special = name.startswith("__") and name.endswith("__")  # Python itself calls it
        if module is None or not definition.nodes or is_special:
            return None
        if len(path) > 1:
            return self._of_method(module, definition)
        early = self._only_early_uses(module, definition)
        if early is None or (not early and _has_bases(definition)):
            return None
        return _explained(early)

    def _of_method(self, module: Module, definition: Definition) -> Bypass | None:
        name, path = definition.address.path[-1], definition.address.path
        owner = self._lookup.find(Address(module.name, path[:-1]))
        if not isinstance(owner, Definition) or has_foreign_base(self._lookup, owner):
            return None  # a base class of another distribution may call it
        unused = self._class_is_unused(module, owner)
        if unused is not None:
            return unused
        if self._text.calls_method(name, near=module.name):
            return None
        uses = self._reading(module).uses
        own = _not_inside(definition, [*uses.attributes.get(name, ()), *uses.strings.get(name, ())])
        if any(use.late for use in own):
            return None
        if any(self._accesses(other, name) for other in self._others(module, name)):
            return None
        if self._text.puts_together(name):
            return None
        return _explained([*own, *(use for use in uses.names.get(name, ()) if not use.late)])

    def _class_is_unused(self, module: Module, owner: Definition) -> Bypass | None:
        """The bypass of a method whose class is unused; None if the class is used, or may be found by its bases."""
        if len(owner.address.path) > 1 or _has_bases(owner):
            return None
        early = self._only_early_uses(module, owner)
        if early is None or not all(map(_is_main, early)):
            return None
        return Bypass(f"of its class {owner.address.path[0]}: {_explained(early).why}", False)

    def _only_early_uses(self, module: Module, definition: Definition) -> Sequence[Use] | None:
        """The uses of a module-level name, if all are in its module during import; None if there may be others."""
        name = definition.address.path[0]
        if self._text.imports_name(module.name, name) or self._text.is_command(module.name, name):
            return None
        uses = self._reading(module).uses
        own = _not_inside(definition, [*uses.names.get(name, ()), *uses.strings.get(name, ())])
        if any(use.late for use in own):
            return None
        may_import = self._may_import(module.name, name)
        if any(
            self._imports(other, module.name, name)
            for other in self._others(module, name)
            if may_import(other)
        ):
            return None
        return None if self._text.puts_together(name) else own

    def _others(self, module: Module, name: str) -> Iterable[str]:
        """The other modules of the host whose text has the name."""
        return (other for other in self._host.containing(name.encode()) if other != module.name)

    def _may_import(self, home: str, name: str) -> _MayImport:
        homes = self._text.star_importers(home)
        packages = tuple(f"{one}." for one in homes if self._host.is_package(one))
        words = [one.rpartition(".")[2].encode() for one in homes]
        words += [word.encode() for word in (f'"{name}"', f"'{name}'", f'.{name}"', f':{name}"')]
        return _MayImport(self._host, packages, words)

    def _accesses(self, other: str, name: str) -> bool:
        """True if another module accesses an attribute of this name, or spells it in a string."""
        module = self._host.module(other)
        if module is None:
            return True
        uses, imported = self._reading(module)
        return name in uses.strings or any(
            not self._is_of_a_module(imported.meaning(use.prefix or ()))
            for use in uses.attributes.get(name, ())
        )

    def _is_of_a_module(self, prefix: str | None) -> bool:
        """True if the prefix of an attribute is a module, so that the attribute is not a method."""
        return prefix is not None and (self._host.has(prefix) or not self._host.has(prefix.split(".")[0]))

    def _imports(self, other: str, home: str, name: str) -> bool:
        """True if another module imports the name, accesses it on a module that has it, or spells it in a string."""
        module = self._host.module(other)
        if module is None:
            return True
        uses, imported = self._reading(module)
        if name in uses.strings:
            return True
        for one in imported.from_imports:
            takes = one.name == name or (one.name == "*" and name in uses.names)
            if takes and self._is_same(one.module, name, home):
                return True
        for use in uses.attributes.get(name, ()):
            meaning = imported.meaning(use.prefix or ())
            if meaning is not None and self._is_same(meaning, name, home):
                return True
            if meaning is None and use.prefix not in (("self",), ("cls",)):
                return True  # an attribute of an object that may be the module
        return False

    def _is_same(self, module: str, name: str, home: str) -> bool:
        """True if `module.name` is, or may be, the definition in `home`."""
        if module == home or not self._host.has(module):
            return module == home
        found = self._lookup.find(Address(module, (name,)))
        if isinstance(found, Definition):
            return found.address == Address(home, (name,))
        return not isinstance(found, Absent)

    def _reading(self, module: Module) -> Read:
        if module.name not in self._read:
            self._read[module.name] = Read(uses_in(module.tree), ImportedNames(module.tree, module.package))
        return self._read[module.name]


class _MayImport(NamedTuple):
    """A quick test for modules that could import a name: they are in its package, or their text names its module."""

    host: SourceTree
    packages: tuple[str, ...]
    words: list[bytes]

    def __call__(self, module: str) -> bool:
        return module.startswith(self.packages) or any(word in self.host.text(module) for word in self.words)


def _is_main(use: Use) -> bool:
    return use.how == MAIN


def _has_bases(definition: Definition) -> bool:
    """True for a class with bases: it may be found without its name, by `__subclasses__` or a scan."""
    return any(isinstance(node, ast.ClassDef) and node.bases for node in definition.nodes)


def _not_inside(definition: Definition, uses: Iterable[Use]) -> list[Use]:
    """The uses that are not inside the definition itself."""
    spans = [(getattr(one, "lineno", 0), getattr(one, "end_lineno", 0)) for one in definition.nodes]
    return [use for use in uses if not any(first <= use.line <= last for first, last in spans)]


def _explained(uses: Sequence[Use]) -> Bypass:
    if not uses:
        why = "nothing in the host names it but its definition; only code from outside could call it"
        return Bypass(why, False)
    kept = list(dict.fromkeys(f"{use.how} (line {use.line})" for use in uses))
    more = f" and {len(kept) - 2} more" if len(kept) > 2 else ""
    why = f"only its own module uses it, as it runs and before a hook can stand there: {', '.join(kept[:2])}{more}"
    return Bypass(why, not all(map(_is_main, uses)))
