"""The results of a lookup: a definition, an absent name, or an unsure answer."""

from __future__ import annotations

from typing import NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.source.scope import DefinitionNode

__all__ = ["Absent", "Answer", "Definition", "Unsure", "most_certain"]


class Definition(NamedTuple):
    """A name that exists. `nodes` is empty if the source shows no definition, as for an imported module."""

    address: Address
    """The module and the qualified name that define it; for an inherited method, those of the base class."""
    nodes: tuple[DefinitionNode, ...] = ()
    via: tuple[Address, ...] = ()
    """The chain of names it was imported through, starting at the requested one."""

    @property
    def node(self) -> DefinitionNode | None:
        """The last one counts, as it does for Python. A property is its getter, an overload its implementation."""
        return self.nodes[-1] if self.nodes else None


class Absent(NamedTuple):
    """A name that does not exist. `holder`: the existing class that lacks the attribute, if that is the reason."""

    why: str
    nearest: tuple[str, ...] = ()
    holder: Address | None = None


class Unsure(NamedTuple):
    """The sources do not show it. `is_elsewhere`: it is in a module that cannot be found or read here."""

    why: str
    is_elsewhere: bool = False


Answer = Definition | Absent | Unsure


def most_certain(answers: list[Answer]) -> Answer:
    """The answer for a name with several alternatives: it exists if one of them does."""
    definitions = [one for one in answers if isinstance(one, Definition)]
    if definitions:
        nodes = tuple(node for one in definitions for node in one.nodes)
        same = all(one.address == definitions[0].address for one in definitions)
        return definitions[0]._replace(nodes=nodes) if same else definitions[0]
    return next((one for one in answers if isinstance(one, Unsure)), answers[0])
