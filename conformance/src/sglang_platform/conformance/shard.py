"""`--shard 1/3`: a part of the checks, so that three machines run them in a third of the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglang_platform.conformance.check import Check

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
        """This part's checks. Each level is dealt out by itself, since the levels take unlike times; but for those that
        ask one engine, which stay together, since it takes longer to start than to ask."""
        groups: dict[str, list[Check]] = {}
        for check in checks:
            groups.setdefault(check.level.label, []).append(check)
        mine: list[Check] = []
        for at, (level, group) in enumerate(groups.items()):
            if level == "host":
                mine += group if at % self.count == self.index - 1 else []
            else:
                mine += [one for n, one in enumerate(group) if (n + at) % self.count == self.index - 1]
        return mine

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
