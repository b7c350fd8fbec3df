"""How the engine of a feature is started, and the words with which a launch may be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sglang_platform.conformance.check import NotRun

__all__ = ["COMPACT_JSON", "PLAIN", "EngineLaunch", "RefusedBeforeLaunch"]


class RefusedBeforeLaunch(NotRun):
    """The launch was refused in words, before a worker ran: no failure, and no service."""

    def __init__(self, words: str) -> None:
        super().__init__(f"refused before launch: {words}", cause="refused")


@dataclass(frozen=True)
class EngineLaunch:
    """How one engine is started. Features with the same launch share the engine."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of `sglang.Engine`, beside those that every engine of the suite has."""

    architecture: str = "llama"
    """Of `host.checkpoints`, built as it stands; with `prepare` the model may be another."""

    prepare: Callable[[Any], Mapping[str, Any]] | None = None
    """Makes what the launch needs on the disk. Called with the folder of the models; answers more arguments."""

    environment: Mapping[str, str] = field(default_factory=dict)
    graphs: bool = True
    """Whether decode graphs are on where the platform captures them."""

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineLaunch) and other.name == self.name


COMPACT_JSON = {"constrained_json_disable_any_whitespace": True}
"""A model of random weights would fill its tokens with white space."""

PLAIN = EngineLaunch(
    "plain",
    {
        "enable_return_hidden_states": True,
        "grammar_backend": "xgrammar",
        # It leaves the grammar of forced calls to the host's JSON schema: other parsers let a named function be any.
        "tool_call_parser": "pythonic",
        **COMPACT_JSON,
    },
)
"""One engine for all that requests can ask of one without special memory, parallelism or models."""
