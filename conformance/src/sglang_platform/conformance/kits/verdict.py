"""How a test of SGLang's kits ended on the platform, judged beside SGLang's own CPU device in the same environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

__all__ = ["Judged", "KitTest", "judged"]

Verdict = Literal["passed", "failed", "not applicable", "not in it"]


class KitTest(NamedTuple):
    """One test of a kit and how it ended.

    `outcome` is `passed`, `failed`, `skipped` (by the kit itself), `left out` (by our table, with the reason) or
    `missing` (this release has no such kit; `test` is empty then). `words` are those of the first cause.
    """

    kit: str
    test: str
    outcome: str
    words: str = ""
    seconds: float = 0.0

    @property
    def cause(self) -> str:
        """The kind of its failure: the exception's name."""
        return self.words.partition(":")[0]


class Judged(NamedTuple):
    """A test on the platform, on SGLang's own device, and what follows."""

    test: KitTest
    in_tree: KitTest | None
    verdict: Verdict

    @property
    def why(self) -> str:
        """Why it is not applicable, or has failed."""
        if self.verdict in ("passed", "not in it"):
            return ""
        if self.in_tree is None:
            return f"{self.test.words}; SGLang's own CPU device was not asked"
        if self.in_tree.outcome == "passed":
            return f"{self.test.words}; it passes on SGLang's own CPU device"
        if self.test.outcome == "left out":
            return self.test.words
        return f"{self.test.words}; on SGLang's own CPU device: {self.in_tree.words}"

    def as_part(self) -> dict[str, Any]:
        """For the report."""
        in_tree = self.in_tree.outcome if self.in_tree else None
        return {
            "of": self.test.kit,
            "name": self.test.test,
            "status": self.verdict,
            "baseline": in_tree,
            "why": self.why or None,
        }

    def __str__(self) -> str:
        return f"{self.test.kit}: {self.test.test}: {self.why}"


def judged(ours: Iterable[KitTest], in_tree: Sequence[KitTest]) -> list[Judged]:
    """Each test of `ours`, and each that only SGLang's own device came to: that one has failed."""
    theirs = {(one.kit, one.test): one for one in in_tree}
    found = [
        Judged(one, theirs.get((one.kit, one.test)), _verdict(one, theirs.get((one.kit, one.test))))
        for one in ours
    ]
    reached = {(one.test.kit, one.test.test) for one in found}
    for one in in_tree:
        if (one.kit, one.test) not in reached and one.outcome == "passed":
            lost = KitTest(one.kit, one.test, "failed", "it was not reached")
            found.append(Judged(lost, one, "failed"))
    return found


def _verdict(ours: KitTest, in_tree: KitTest | None) -> Verdict:
    """Not applicable is what SGLang's own device cannot either: for the same kind of cause, or because the platform
    refuses. A wrong value stays a failure where SGLang's device had refused, for nobody has seen it right."""
    if ours.outcome == "passed":
        return "passed"
    if ours.outcome == "missing":
        return "not in it"
    if in_tree is None or in_tree.outcome == "passed":
        return "failed"
    if ours.cause == "AssertionError" and in_tree.cause != ours.cause:
        return "failed"
    return "not applicable"
