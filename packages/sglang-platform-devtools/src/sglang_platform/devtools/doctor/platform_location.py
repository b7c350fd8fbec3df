"""The locations of installed plugins' platform classes: the result of `activate()`, or the results in its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.discovery import current, scan
from sglang_platform.core.discovery.groups import PLATFORM_GROUP
from sglang_platform.core.discovery.settings import LOCATION
from sglang_platform.core.doctor.entry_points import reference
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.conditions import decided
from sglang_platform.devtools.source.constants import constant_text
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.signatures import own_nodes

__all__ = ["PlatformLocation", "platform_locations", "returned_texts", "returns_of"]


class PlatformLocation(NamedTuple):
    """A class that a plugin names."""

    origin: PluginOrigin
    location: str

    def candidates(self) -> Iterator[tuple[str, str]]:
        """The possible (module, class path) pairs; several if the location has no colon."""
        module, colon, path = self.location.partition(":")
        if colon:
            yield module, path
            return
        parts = self.location.split(".")
        for count in range(len(parts) - 1, 0, -1):
            yield ".".join(parts[:count]), ".".join(parts[count:])


def platform_locations(lookup: Lookup) -> Iterator[PlatformLocation | PluginOrigin]:
    """Every named platform class, or the plugin alone if its source does not show one.

    Results of this process's selection come first, since they are certain. Plugins that declined are read as well:
    their errors would show on another machine.
    """
    answered: dict[PluginOrigin, str] = {}
    trace = current.trace()
    for candidate in trace.candidates if trace is not None else ():
        if candidate.answer:
            answered[candidate.origin] = candidate.answer
            yield PlatformLocation(candidate.origin, candidate.answer)
    for record in scan.records(PLATFORM_GROUP):
        if record.origin in answered:
            continue
        module, attribute = reference(record.value)
        texts = list(returned_texts(lookup, module, attribute))
        for text in texts:
            yield PlatformLocation(record.origin, text)
        if not texts and lookup.modules.module(module) is not None:
            yield record.origin


def returned_texts(lookup: Lookup, module: str, attribute: str) -> Iterator[str]:
    """The locations that a function of this name returns, as far as the source shows them."""
    answer = lookup.find(Address(module, tuple(attribute.split("."))))
    home = lookup.module_of(answer) if isinstance(answer, Definition) else None
    if home is None or not isinstance(answer, Definition):
        return
    for function in answer.nodes:
        for returned in returns_of(function):
            text = constant_text(lookup, home, returned)
            if text is not None and LOCATION.fullmatch(text) and {".", ":"} & set(text):
                yield text


def returns_of(function: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a function returns, nested functions left out; both branches of a conditional expression."""
    for node in own_nodes(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from _answers(node.value) if isinstance(node.value, ast.IfExp) else (node.value,)


def _answers(value: ast.IfExp) -> list[ast.expr]:
    """The branches of a conditional expression that some process takes."""
    answer = decided(value.test)
    return [*([value.body] if answer is not False else ()), *([value.orelse] if answer is not True else ())]
