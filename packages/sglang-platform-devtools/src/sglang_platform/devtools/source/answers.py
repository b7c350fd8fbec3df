"""What can be said of a name: where it is defined, that it does not exist, or that the sources do not tell."""

from __future__ import annotations

from typing import NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.scope import DefinitionNode

__all__ = ["Absent", "Answer", "Definition", "Unsure", "most_certain"]


class Definition(NamedTuple):
    """A name that exists. `nodes` is empty where its text does not show it, as for an imported module."""

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
    """A name that does not exist. `holder` is the class that is there and lacks the attribute, if that is why."""

    why: str
    nearest: tuple[str, ...] = ()
    holder: Address | None = None


class Unsure(NamedTuple):
    """The sources do not tell. `is_elsewhere`: they name a module that cannot be found or read here."""

    why: str
    is_elsewhere: bool = False


Answer = Definition | Absent | Unsure


def most_certain(answers: list[Answer]) -> Answer:
    """What is true of a name that is one of several things: it exists if one of them does."""
    definitions = [one for one in answers if isinstance(one, Definition)]
    if definitions:
        nodes = tuple(node for one in definitions for node in one.nodes)
        same = all(one.address == definitions[0].address for one in definitions)
        return definitions[0]._replace(nodes=nodes) if same else definitions[0]
    return next((one for one in answers if isinstance(one, Unsure)), answers[0])
