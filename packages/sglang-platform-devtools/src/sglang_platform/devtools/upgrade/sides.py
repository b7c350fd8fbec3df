"""The two releases beside each other: one class, function or module, as each of them has it."""

from __future__ import annotations

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.hook_check.moved import search
from sglang_platform.devtools.source.answers import Answer
from sglang_platform.devtools.upgrade.members import HostClass
from sglang_platform.devtools.upgrade.release import Release

__all__ = ["Sides"]


class Sides:
    """Release `old` and release `new`."""

    def __init__(self, old: Release, new: Release) -> None:
        self.old, self.new = old, new
        self._moved: dict[Address, tuple[Address, ...]] = {}

    def counterpart(self, old: HostClass | None) -> HostClass | None:
        """The newer release's class: of the same name in the same module, or in the one that it moved to."""
        if old is None:
            return None
        new = self.new.class_at(old.address)
        if new is not None:
            return new
        homes = self.moved_to(old.address)
        return self.new.class_at(homes[0]) if homes else None

    def moved_to(self, address: Address) -> tuple[Address, ...]:
        """The new addresses of a definition that its module lacks in the newer release, the likeliest first."""
        if address not in self._moved:
            self._moved[address] = search(
                self.new.tree, self.new.lookup, address, None, self.old.lookup
            ).homes
        return self._moved[address]

    def find(self, dotted: str) -> tuple[Answer, Answer]:
        """The answer for a full name in each release."""
        return self.old.find(dotted), self.new.find(dotted)
