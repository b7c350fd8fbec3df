"""All couplings of a plugin to the host, found in its sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.devtools.changes import Changes, changes_in
from sglang_platform.devtools.flow.program import Program
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.conditions import blocks
from sglang_platform.devtools.source.module import Module
from sglang_platform.devtools.source.scope import imported_module
from sglang_platform.devtools.source.values import dotted
from sglang_platform.devtools.upgrade.coupling import Coupling, Kind, SourcePlace
from sglang_platform.devtools.upgrade.functions import Body
from sglang_platform.devtools.upgrade.given import given_to_function, given_to_hook, given_to_method
from sglang_platform.devtools.upgrade.members import Function
from sglang_platform.devtools.upgrade.naming import Naming, is_hosts
from sglang_platform.devtools.upgrade.own import OwnClass, OwnClasses
from sglang_platform.devtools.upgrade.plugin import PluginSource
from sglang_platform.devtools.upgrade.shapes import bound_parameters
from sglang_platform.devtools.upgrade.sides import Sides
from sglang_platform.devtools.upgrade.texts import group_couplings, text_couplings
from sglang_platform.devtools.upgrade.types import Types, Value, parameters

__all__ = ["Couplings", "read_couplings"]


_HOSTS_WORD = re.compile(rb"\bsglang\b|\bSGL(?:ANG)?_")


class Couplings(NamedTuple):
    """`unread`: (place, why it was not examined). `classes`: those on classes of the host whose statement runs."""

    found: tuple[Coupling, ...]
    hooks: tuple[WantedHook, ...]
    unread: tuple[tuple[str, str], ...]
    classes: tuple[OwnClass, ...]


def read_couplings(plugin: PluginSource, sides: Sides) -> Couplings:
    """All couplings of a plugin, without importing or running it. `compare` drops those that neither release has."""
    return _Reader(plugin, sides).read()


class _Reader:
    def __init__(self, plugin: PluginSource, sides: Sides) -> None:
        self._plugin, self._host = plugin, sides.old
        self._naming = Naming(plugin.tree)
        self._types = Types(sides.old, self._naming)
        self._own = OwnClasses(plugin.tree, self._naming, sides.old)
        self._found: list[Coupling] = []
        self._unread: list[tuple[str, str]] = []
        self._classes: list[OwnClass] = []
        self._hooked: dict[int, WantedHook] = {}
        self._flow = Program(plugin.tree, sides.new, plugin.entry_points)

    def read(self) -> Couplings:
        changes = changes_in(self._flow, self._plugin.label)
        self._changes(changes)
        for name in self._of_interest():
            module = self._plugin.tree.module(name)
            if module is None:
                self._unread.append((self._plugin.file(name), "it cannot be parsed by this Python"))
                continue
            self._module(module)
        self._unread += [(str(self._plugin.place_of(f"{path}:1")), why) for path, why in self._flow.unread]
        self._found += group_couplings(self._plugin.metadata)
        found, unread = dict.fromkeys(self._found), dict.fromkeys(self._unread)
        return Couplings(tuple(found), changes.hooks, tuple(unread), tuple(self._classes))

    def _of_interest(self) -> list[str]:
        """The modules that mention the host's name, and those that import from one of these."""
        tree = self._plugin.tree
        told = {name for name in tree.served() if _HOSTS_WORD.search(tree.text(name))}
        more = set(told)
        while more:
            words = re.compile(b"|".join(re.escape(one.rpartition(".")[2].encode()) for one in sorted(more)))
            more = {
                name
                for name in tree.served()
                if name not in told
                and words.search(tree.text(name))
                and tree.module(name) is not None
                and any(
                    origin.rpartition(".")[0] in told or origin in told
                    for origin in (*self._naming.imported(name)[0].values(), *self._naming.imported(name)[1])
                )
            }
            told |= more
        return [name for name in tree.served() if name in told]

    def _changes(self, changes: Changes) -> None:
        for hook in changes.hooks:
            target = hook.target.replace(":", ".")
            if not is_hosts(target):
                continue
            if hook.hook is not None and hook.hook.node is not None:
                self._hooked[id(hook.hook.node)] = hook
            place = self._plugin.place_of(hook.where or "")
            kind: Kind = "patch" if hook.written else "hook"
            self._found.append(Coupling(kind, target, place, hook=hook, reach=changes.reach[hook]))
        for where in changes.unread:
            self._unread.append(
                (str(self._plugin.place_of(where)), "the target of a hook or patch is not in the source")
            )
        for one in changes.stand_ins:
            where = str(self._plugin.place_of(one.where))
            self._unread.append(
                (where, f"a module of the plugin's own stands for {one.module} in sys.modules")
            )

    def _module(self, module: Module) -> None:
        self._imports(module)
        hooks = [
            one
            for one in self._found
            if one.kind in ("hook", "patch") and one.place.file == self._plugin.file(module.name)
        ]
        told = {(one.place.line, one.target) for one in self._found if one.kind == "import"}
        texts = text_couplings(module, self._naming, self._place, hooks)
        self._found += [
            one._replace(reach=self._flow.reach_around(module, one.place.line))
            for one in texts
            if one.kind != "import" or (one.place.line, one.target) not in told
        ]
        self._body(module, module.tree.body, None, {})
        for function, own, outer in _functions(module.tree.body, None, ()):
            owner = self._own.of(module, own) if own is not None else None
            self._function(module, function, owner, outer)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                self._class(self._own.of(module, node))

    def _class(self, own: OwnClass) -> None:
        mine = frozenset(name for one in own.own_line() for name in one.own)
        for expression in own.node.bases:
            base = self._own.host_base(own.module, expression)
            if base is not None:
                place, reach = self._place(own.module, expression), self._flow.reach(own.node)
                self._found.append(Coupling("base", str(base.address), place, base, own=mine, reach=reach))
        if own.has_unread_base:
            self._unread.append((str(self._place(own.module, own.node)), "a base that is computed"))
        if own.hosts() and self._flow.reach(own.node).kind not in ("never", "unsure"):
            self._classes.append(own)
        for name, member in own.own.items():
            if member.inside is not None or name.startswith("__"):
                continue
            above = own.inherited(name)
            if above is None:
                continue
            place = self._place(own.module, member.node)
            reach = self._flow.reach(member.node)
            takes = bound_parameters(member) if member.kind == "method" else None
            self._found.append(
                Coupling("override", f"{above.address}.{name}", place, above, name, mine=takes, reach=reach)
            )
        self._body(own.module, own.node.body, own, {})

    def _function(
        self, module: Module, node: Function, own: OwnClass | None, outer: tuple[Function, ...]
    ) -> None:
        names: dict[str, Value] = {}
        for one in outer:
            names |= self._parameters(module, one, None)[0]
        mine, given = self._parameters(module, node, own)
        names |= mine
        self_name = ""
        if own is not None and parameters(node):
            self_name = parameters(node)[0].arg
            names.pop(self_name, None)
        self._body(module, node.body, own, names, given, self_name)

    def _parameters(
        self, module: Module, node: Function, own: OwnClass | None
    ) -> tuple[dict[str, Value], set[str]]:
        """The values of the parameters, and the names of those that the host passes."""
        hook = self._hooked.get(id(node))
        if hook is not None:
            return given_to_hook(hook, node, module, self._types), {one.arg for one in parameters(node)}
        if own is not None:
            names = given_to_method(own, node, self._types)
            overridden = own.inherited(node.name) is not None and node.name != "__init__"
            return names, {one.arg for one in parameters(node)[1:]} if overridden else set()
        return given_to_function(parameters(node), module, self._types), set()

    def _body(
        self,
        module: Module,
        body: list[ast.stmt],
        own: OwnClass | None,
        names: dict[str, Value],
        given: set[str] | None = None,
        self_name: str = "",
    ) -> None:
        reader = Body(module, self._types, self._place, own, self_name, self._flow.reach)
        reader.run(body, names, given or ())
        self._found += reader.found
        for name, (place, many) in reader.unread.items():
            more = f" (and {many} more)" if many else ""
            self._unread.append((str(place), f"of which class {name} is the sources do not tell{more}"))

    def _imports(self, module: Module) -> None:
        for node in module.nodes:
            match node:
                case ast.Import(names=aliases):
                    for alias in aliases:
                        self._named(module, node, alias.name)
                case ast.ImportFrom(names=aliases):
                    source = imported_module(node, module.package)
                    for alias in aliases:
                        self._named(module, node, source if alias.name == "*" else f"{source}.{alias.name}")
                        if alias.name == "*" and is_hosts(source):
                            where = str(self._place(module, node))
                            self._unread.append((where, f"which names are used from {source} by `import *`"))
                case ast.Attribute(
                    ctx=ast.Load()
                ):  # sglang.srt.utils.is_cuda, through `import sglang.srt.utils`
                    full = self._named_in_module(module, node)
                    if full is not None:
                        self._named(module, node, full)
        told = {(one.place.line, one.target) for one in self._found if one.kind == "import"}
        patched = {one.target for one in self._found if one.kind in ("hook", "patch")}  # has its own row
        for failure in self._flow.failures:  # import_module("..."), getattr(module, "...")
            fault = failure.fault
            line = getattr(fault.node, "lineno", 1)
            if fault.module is module and (line, fault.target) not in told and fault.target not in patched:
                self._named(module, fault.node, fault.target)

    def _named(self, module: Module, node: ast.AST, full: str) -> None:
        if not is_hosts(full):
            return
        failure = self._flow.failure(node, full)
        reach = failure.reach if failure is not None else self._flow.reach(node, ImportError)
        told = failure.told if failure is not None else ""
        self._found.append(Coupling("import", full, self._place(module, node), reach=reach, failure=told))

    def _named_in_module(self, module: Module, node: ast.Attribute) -> str | None:
        """The full name where an attribute is taken of a module of the host."""
        full = self._naming.host_name(module, dotted(node))
        if full is None:
            return None
        above = full.rpartition(".")[0]
        return full if self._host.tree.has(above) and not self._host.tree.has(full) else None

    def _place(self, module: Module, node: ast.AST) -> SourcePlace:
        return self._plugin.place(module, node)


def _functions(
    body: list[ast.stmt], own: ast.ClassDef | None, outer: tuple[Function, ...]
) -> Iterator[tuple[Function, ast.ClassDef | None, tuple[Function, ...]]]:
    """Every function with the class it is a method of, and the functions around it."""
    for one in body:
        if isinstance(one, Function):
            yield one, own, outer
            yield from _functions(one.body, None, (*outer, one))
        elif isinstance(one, ast.ClassDef):
            yield from _functions(one.body, one, outer)
        else:
            for inner in blocks(one):
                yield from _functions(inner, own, outer)
