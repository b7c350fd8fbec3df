"""One release of the host: its sources by name, and the classes in them."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Absent, Answer, Definition
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import Module, modules_in
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.members import HostClass, members_of

__all__ = ["HOST", "Release"]

HOST = "sglang"
"""The top package of the host."""


class _Others(Environment):
    """This environment without the host, since the installed host is another release."""

    def has(self, module: str) -> bool:
        return module.partition(".")[0] != HOST and super().has(module)


class Release:
    """A release, read on demand and cached."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.lookup = Lookup(tree, Lookup(_Others()))
        self._classes: dict[Address, HostClass | None] = {}
        found = re.search(r"\d+\.\d+[\w.]*", tree.label)
        self.label = f"{HOST} {found[0]}" if found and tree.label.startswith(HOST) else tree.label

    @functools.cached_property
    def version(self) -> str | None:
        """The version, by the label of the sources, their `__version__`, or the metadata beside them."""
        if self.tree.label.startswith(HOST) and (found := re.search(r"\d+\.\d+[\w.+]*", self.label)):
            return found[0]
        for name in ("_version", "version", None):
            answer = self.find(".".join(filter(None, (HOST, name, "__version__"))))
            if isinstance(answer, Definition) and isinstance(answer.node, ast.Constant):
                return str(answer.node.value)
        top = Path(self.tree.path(HOST) or "").parent.parent
        beside = [one.name[len(HOST) + 1 : -len(".dist-info")] for one in top.glob(f"{HOST}-*.dist-info")]
        return beside[0] if len(beside) == 1 else None

    def address(self, full: str) -> Address | None:
        """Module and path of a full name; None where it names a module. The longest prefix that is a module counts."""
        parts = full.split(".")
        count = modules_in(parts, self.tree.has)
        if count == len(parts):
            return None
        return Address(".".join(parts[:count]), tuple(parts[count:]))

    def find(self, full: str) -> Answer:
        """The answer for a full name: of a module, of a member of one, or of a class attribute."""
        address = self.address(full)
        if address is None:
            return Definition(Address(full, ()))
        if not address.module:
            return Absent(f"{self.label} has no package {address.path[0]!r}")
        module, first = address.module, address.path[0]
        if len(address.path) > 1 and self.tree.is_package(module) and not self._binds(module, first):
            return Absent(f"the package {module!r} has no module {first!r}")
        return self.lookup.find(address)

    def _binds(self, module: str, name: str) -> bool:
        read = self.tree.module(module)
        return read is None or name in read.scope.names or bool(read.scope.stars)

    def module(self, name: str) -> Module | None:
        return self.tree.module(name)

    def class_at(self, address: Address) -> HostClass | None:
        """The class of this name, following imports and inheritance; None for anything else."""
        if address not in self._classes:
            answer = self.lookup.find(address) if self.tree.has(address.module) else None
            self._classes[address] = None
            if isinstance(answer, Definition) and isinstance(answer.node, ast.ClassDef):
                module = self.lookup.module_of(answer)
                if module is not None and self.tree.has(module.name):
                    self._classes[address] = (
                        self._make(answer.address, module, answer.node)
                        if answer.address == address
                        else self.class_at(answer.address)
                    )
        return self._classes[address]

    def class_named(self, full: str) -> HostClass | None:
        """The class of a full name; None for anything else."""
        answer = self.find(full)
        if not isinstance(answer, Definition) or not answer.address.path:
            return None
        return self.class_at(answer.address)

    def _make(self, address: Address, module: Module, node: ast.ClassDef) -> HostClass:
        found = HostClass(address, module, node, members_of(node, address, module))
        for base in node.bases:
            known = self.named(module, base)
            if known is not None:
                found.bases.append(known)
            elif not _adds_nothing(base):
                found.has_unread_base = True
        if node.name in module.scope.remade:
            found.parts = self._listed_classes(module)
            found.is_remade = True
        return found

    def _listed_classes(self, module: Module) -> list[HostClass]:
        """The classes in a list from which the module builds another class: ``[Device, Parallel, Memory]``."""
        found = []
        for statement in module.tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List | ast.Tuple):
                classes = [self.named(module, one) for one in statement.value.elts]
                if classes and None not in classes:
                    found += [one for one in classes if one is not None]
        return found

    def named(self, module: Module, node: ast.expr) -> HostClass | None:
        """The class of the host that an expression of a module of the host names; imports for type checkers count."""
        parts = dotted(node)
        if parts is None:
            return None
        found = self.class_at(Address(module.name, parts))
        origin = module.scope.for_type_checkers.get(parts[0])
        if found is None and origin is not None and origin[1] is not None:
            found = self.class_at(Address(origin[0], (origin[1], *parts[1:])))
        return found

    def place(self, module: str, node: ast.AST | None) -> str:
        """``sglang/srt/server_args.py:120``, the same for a wheel and a folder."""
        path = self.tree.path(module) or ""
        name = module.replace(".", "/") + ("/__init__.py" if path.endswith("__init__.py") else ".py")
        line = getattr(node, "lineno", None)
        return f"{name}:{line}" if line else name


def _adds_nothing(base: ast.expr) -> bool:
    parts = dotted(base)
    return parts is not None and parts[-1] in {
        "object",
        "ABC",
        "Generic",
        "Protocol",
        "Enum",
        "IntEnum",
        "Struct",
    }
