"""`--shard 1/3`: a part of the checks, so that three machines run them in a third of the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglang_platform.conformance.check import Check
from sglang_platform.conformance.level import Level

__all__ = ["Shard"]


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, counted from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Raises ValueError unless it is like `1/3`."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
            raise ValueError(f"--shard takes a part of the parts, such as 1/3, and not {text!r}")
        return cls(int(index), int(count))

    def of(self, checks: Sequence[Check]) -> list[Check]:
        """This part's checks. Those of one module stay together, since they share the processes that they start, as do
        those of the host level, which ask one engine. The slowest first, by their time limits, each goes to the part
        that has the least so far."""
        together: dict[str, list[Check]] = {}
        for check in checks:
            module = "host" if check.level is Level.HOST else check.function.__module__
            together.setdefault(module, []).append(check)
        limits = [0.0] * self.count
        mine: set[str] = set()
        for group in sorted(together.values(), key=lambda group: -sum(one.seconds for one in group)):
            least = limits.index(min(limits))
            limits[least] += sum(one.seconds for one in group)
            if least == self.index - 1:
                mine |= {one.id for one in group}
        return [one for one in checks if one.id in mine]

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
