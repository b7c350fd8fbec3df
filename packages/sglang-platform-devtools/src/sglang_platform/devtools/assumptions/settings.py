"""The server arguments of a release, and the attributes, variables and functions that hold one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

from sglang_platform.devtools.assumptions.conditions import Term
from sglang_platform.devtools.source.signatures import fields
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["ArgumentNames", "arguments_of"]

_RECORD = "ServerArgs"
_FIELDS = ".arg_groups.fields"
_ONE_WORD = frozenset({"quantization"})
"""One-word arguments that are recognised by name alone; `device` or `host` are attributes of anything."""

_MOST_HELD = 2
_ROUNDS = 2


def arguments_of(tree: SourceTree) -> frozenset[str]:
    """The fields of the host's records of server arguments, whose flags have the same names."""
    found: set[str] = set()
    for name in tree.served():
        of_a_record = name.endswith("server_args") and b"class ServerArgs" in tree.text(name)
        if not of_a_record and _FIELDS not in name:
            continue
        module = tree.module(name)
        for node in module.tree.body if module is not None else ():
            if isinstance(node, ast.ClassDef) and (node.name == _RECORD or _FIELDS in name):
                found.update(fields(node))
    return frozenset(one for one in found if not one.startswith("_"))


class ArgumentNames:
    """The server arguments that a name stands for, as the argument's name or as a variable that holds it."""

    def __init__(self, arguments: frozenset[str], holders: Iterable[tuple[str, tuple[Term, ...]]]) -> None:
        self.arguments = arguments
        self._plain = frozenset(one for one in arguments if "_" in one) | (arguments & _ONE_WORD)
        self._held: dict[str, tuple[str, ...]] = {}
        written = list(holders)
        for _ in range(_ROUNDS):
            self._held = self._settled(written)

    def _settled(self, written: list[tuple[str, tuple[Term, ...]]]) -> dict[str, tuple[str, ...]]:
        """The names to which most assignments in the host give a value made of the same one or two arguments."""
        places: Counter[str] = Counter()
        made: dict[str, Counter[str]] = {}
        for name, made_of in written:
            if name in self._plain:
                continue
            places[name] += 1
            for one in {found for word, _ in made_of for found in self.of_word(word)}:
                made.setdefault(name, Counter())[one] += 1
        found = {}
        for name, counts in made.items():
            usual = tuple(sorted(one for one, count in counts.items() if 2 * count > places[name]))
            if usual and len(usual) <= _MOST_HELD:
                found[name] = usual
        return found

    def of_word(self, word: str) -> tuple[str, ...]:
        if word in self._plain:
            return (word,)
        return self._held.get(word, ())

    def of_terms(self, terms: Iterable[Term]) -> frozenset[str]:
        """The arguments in `terms`: ``attention_backend=fa3`` for a comparison with a string, else the bare name."""
        return frozenset(
            f"{argument}={value}" if value else argument
            for word, values in terms
            for argument in self.of_word(word)
            for value in (values or ("",))
        )

    def of_registry(self, registry: str, key: str) -> frozenset[str]:
        """The argument that selects `key` from a registry: the longest whose words are all in the registry's name."""
        words = {one.removesuffix("s") for one in registry.lower().split("_")}
        fitting = [one for one in self._plain if {w.removesuffix("s") for w in one.split("_")} <= words]
        longest = max(fitting, key=lambda one: (len(one), one), default=None)
        return frozenset() if longest is None else frozenset({f"{longest}={key}"})
