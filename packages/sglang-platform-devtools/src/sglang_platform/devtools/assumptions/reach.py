"""The call graph of a host release: the server arguments that lead to a function, and whether another device can
reach it.

Calls are resolved by name: a name that an import binds, a method of `self`, or a method name that few classes define.
Listing a class in a module's table, or deriving from it, does not count as using it. Calls through a table or a string
are not seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sglang_platform.devtools.assumptions.reading import ModuleFacts, NamedFunction, Under
from sglang_platform.devtools.assumptions.settings import ArgumentNames
from sglang_platform.devtools.assumptions.site import ANY_LAUNCH

__all__ = ["FunctionReach", "Node"]

Node = tuple[str, str]
"""A module, and the qualified name of a function or class in it; the name is empty for module-level code."""

_FEW = 2
"""A method name of more than one word that at most this many classes define is resolved without its class."""

_MODELS = "model_path"
_STARTS = frozenset(
    {
        "DataParallelController", "DetokenizerManager", "DiffGenerator", "Engine", "GPUWorker", "ModelRunner",
        "Scheduler", "TokenizerManager", "launch_server", "run_detokenizer_process", "run_scheduler_process",
    }
)  # fmt: skip
"""Functions and classes that every launch runs."""


class _Edge(NamedTuple):
    source: Node
    target: Node
    asked: bool
    arguments: frozenset[str]


class FunctionReach:
    """The functions of one release, and the edges from each to those it names."""

    def __init__(self, facts: Mapping[str, ModuleFacts], settings: ArgumentNames) -> None:
        self._facts = facts
        self._settings = settings
        self._nodes = {(name, one) for name, found in facts.items() for one in ("", *found.functions)}
        self._classes = {(name, one) for name, found in facts.items() for one in found.bases}
        self._by_name: dict[str, list[Node]] = {}
        self._methods: dict[str, list[Node]] = {}
        for node in self._nodes:
            before, _, last = node[1].rpartition(".")
            (self._methods if before else self._by_name).setdefault(last, []).append(node)
        self._own: dict[Node, frozenset[str]] = {}
        self._read_registries()
        self._unseen: set[str] = set()
        self._few: dict[tuple[str, str], list[Node]] = {}
        self._of_terms: dict[Under, frozenset[str]] = {}
        self._edges = list(self._read_edges())
        self._into: dict[Node, list[_Edge]] = {}
        self._out: dict[Node, list[_Edge]] = {}
        for edge in self._edges:
            self._add(edge)
        self._by_class()
        self._arguments = self._spread()
        self._anywhere = self._reached(gates=False, without=frozenset())
        self._open = self._reached(gates=True, without=frozenset())

    def arguments(self, node: Node) -> frozenset[str]:
        """The server arguments tested last on each path to the function; empty if no path is seen."""
        return self._arguments.get(node, frozenset())

    def is_gated(self, node: Node) -> bool:
        """True if every path to the function tests for a device by name."""
        return node in self._anywhere and node not in self._open

    def without(self, replaced: frozenset[Node]) -> frozenset[Node]:
        """The functions that another device reaches only through one of `replaced`."""
        return frozenset(self._open - self._reached(gates=True, without=replaced) - replaced)

    def first_of(self, node: Node, replaced: frozenset[Node]) -> frozenset[Node]:
        """The functions of `replaced` with a path to `node` that passes through no other of them."""
        seen, waiting, found = {node}, deque([node]), set()
        while waiting:
            for edge in self._into.get(waiting.popleft(), ()):
                if edge.source in replaced:
                    found.add(edge.source)
                elif edge.source not in seen:
                    seen.add(edge.source)
                    waiting.append(edge.source)
        return frozenset(found)

    # Reading

    def _read_registries(self) -> None:
        for name, found in self._facts.items():
            for unit, entries in found.registered.items():
                arguments = frozenset(
                    one for registry, key in entries for one in self._settings.of_registry(registry, key)
                )
                node = (
                    self._of_full_name(unit)
                    if "." in unit and (name, unit) not in self._nodes
                    else (name, unit)
                )
                if arguments and node in self._nodes:
                    self._own[node] = self._own.get(node, frozenset()) | arguments
            for unit in found.entry_classes:
                self._own[(name, unit)] = frozenset({_MODELS})

    def _read_edges(self) -> Iterable[_Edge]:
        for name, found in self._facts.items():
            for one in found.named:
                for target in self._targets(name, found, one):
                    source = (name, one.function)
                    if target != source and (one.function or target not in self._classes):
                        yield _Edge(source, target, bool(one.under.asked), self._asked_for(one.under))
            for function, module, under in found.imported:
                if module in self._facts:
                    yield _Edge((name, function), (module, ""), bool(under.asked), self._asked_for(under))
            for unit, bases in found.bases.items():
                for base in bases:
                    for target in self._plain(name, found, base):
                        yield _Edge((name, unit), target, False, frozenset())

    def _asked_for(self, under: Under) -> frozenset[str]:
        if not under.terms:
            return frozenset()
        found = self._of_terms.get(under)
        if found is None:
            found = self._of_terms[under] = self._settings.of_terms(under.terms)
        return found

    def _targets(self, module: str, found: ModuleFacts, one: NamedFunction) -> list[Node]:
        if not one.base:
            return self._plain(module, found, one.name)
        if one.base in ("self", "cls"):
            own = (module, f"{one.function.rpartition('.')[0]}.{one.name}")
            if own in self._nodes:
                return [own]
        else:
            first, _, rest = one.base.partition(".")
            full = ".".join(part for part in (found.names.get(first, first), rest, one.name) if part)
            direct = self._of_full_name(full) or (module, f"{one.base}.{one.name}")
            if direct in self._nodes:
                return [direct]
        return self._by_method_name(one.name, (module.split(".")[1:2] or [""])[0])

    def _by_method_name(self, name: str, runtime: str) -> list[Node]:
        """The methods of this name, empty if too many; `runtime` is the caller's part of the host."""
        found = self._few.get((name, runtime))
        if found is None:
            said = name if "_" in name.strip("_") else ""  # a one-word name is too common
            found = [one for one in self._methods.get(said, []) if _may_meet(runtime, one[0])]
            found = self._few[name, runtime] = found if len(found) <= _FEW else []
            if not found:
                self._unseen.add(name)
        return found

    def _plain(self, module: str, found: ModuleFacts, name: str) -> list[Node]:
        own = [(module, name)] if (module, name) in self._nodes else []
        full = found.names.get(name)  # a conditional definition may exist beside the import
        if full is None or not full.startswith("sglang."):
            return own
        direct = self._of_full_name(full)
        if direct is not None:
            return [*own, direct]
        same = self._by_name.get(full.rpartition(".")[2], [])  # re-exported
        return [*own, *same] if len(same) <= _FEW else own

    def _of_full_name(self, full: str) -> Node | None:
        before, _, last = full.rpartition(".")
        unit = last
        while before:
            if before in self._facts:
                return (before, unit) if (before, unit) in self._nodes else None
            before, _, last = before.rpartition(".")
            unit = f"{last}.{unit}"
        return None

    def _add(self, edge: _Edge) -> None:
        self._into.setdefault(edge.target, []).append(edge)
        self._out.setdefault(edge.source, []).append(edge)

    def _by_class(self) -> None:
        """Connect a class to its methods without a visible caller: any owner of an object may call them."""
        for node in self._nodes:
            owner, _, last = node[1].rpartition(".")
            if owner and (node not in self._into or last in self._unseen or last.startswith("__")):
                self._add(_Edge((node[0], owner), node, False, frozenset()))

    # Following

    def _starts(self) -> Iterable[Node]:
        for node in self._nodes:
            if node[1] in _STARTS and not node[0].startswith("sglang.test"):
                yield node

    def _spread(self) -> dict[Node, frozenset[str]]:
        found: dict[Node, set[str]] = {node: set(own) for node, own in self._own.items()}
        for node in self._starts():
            found.setdefault(node, set()).add(ANY_LAUNCH)
        for edge in (one for edges in self._into.values() for one in edges):
            if edge.arguments:
                found.setdefault(edge.target, set()).update(edge.arguments)
        waiting = deque(found)
        queued = set(waiting)
        while waiting:
            node = waiting.popleft()
            queued.discard(node)
            mine = (
                {ANY_LAUNCH} if ANY_LAUNCH in found[node] else found[node]
            )  # no server argument is needed then
            for edge in self._out.get(node, ()):
                if edge.arguments or edge.target in self._own:
                    continue
                theirs = found.setdefault(edge.target, set())
                if not mine <= theirs:
                    theirs |= mine
                    if edge.target not in queued:
                        queued.add(edge.target)
                        waiting.append(edge.target)
        return {node: frozenset(one) for node, one in found.items()}

    def _reached(self, *, gates: bool, without: frozenset[Node]) -> set[Node]:
        """The functions reachable from the starts, and from functions without a visible caller."""
        seen = {node for node in self._nodes if node not in self._into} | set(self._starts())
        waiting = deque(seen - without)
        while waiting:
            for edge in self._out.get(waiting.popleft(), ()):
                if edge.target not in seen and not (gates and edge.asked):
                    seen.add(edge.target)
                    if edge.target not in without:
                        waiting.append(edge.target)
        return seen


def _may_meet(runtime: str, module: str) -> bool:
    """False if one side is in the LLM runtime and the other in the diffusion runtime; the rest is shared."""
    return {runtime, (module.split(".")[1:2] or [""])[0]} != {"srt", "multimodal_gen"}
