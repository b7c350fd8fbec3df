"""The two releases beside each other: one class, function or module, as each of them has it."""

from __future__ import annotations

from typing import NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.hook_check.moved import search
from sglang_platform.devtools.source.answers import Absent, Answer, Definition
from sglang_platform.devtools.upgrade.members import HostClass, HostMember
from sglang_platform.devtools.upgrade.release import Release

__all__ = ["Pair", "Sides"]


class Pair(NamedTuple):
    """One class in both releases; `old` or `new` is None if that release lacks it."""

    old: HostClass | None
    new: HostClass | None

    @property
    def name(self) -> str:
        found = self.old or self.new
        return found.name if found is not None else "?"

    @property
    def full(self) -> str:
        found = self.old or self.new
        return str(found.address) if found is not None else "?"

    def member(self, name: str) -> HostMember | None:
        """The older release's member, else the newer one's."""
        found = self.old.find(name) if self.old is not None else None
        return found or (self.new.find(name) if self.new is not None else None)

    def has(self, name: str) -> bool:
        return self.member(name) is not None


class Sides:
    """Release `old` and release `new`."""

    def __init__(self, old: Release, new: Release) -> None:
        self.old, self.new = old, new
        self._pairs: dict[str, Pair | None] = {}
        self._moved: dict[Address, tuple[Address, ...]] = {}

    def pair(self, dotted: str) -> Pair | None:
        """The class that a plugin names; None if neither release has it."""
        if dotted not in self._pairs:
            old, new = self._named(self.old, dotted), self._named(self.new, dotted)
            if old is not None and new is None:
                new = self.counterpart(old)
            self._pairs[dotted] = None if old is None and new is None else Pair(old, new)
        return self._pairs[dotted]

    def pair_of(self, found: HostClass, release: Release) -> Pair:
        """Both sides of a class that was found in one."""
        if release is self.new:
            old = self.old.class_at(found.address)
            return Pair(old, found)
        return Pair(found, self.counterpart(found))

    def counterpart(self, old: HostClass) -> HostClass | None:
        """The newer release's class: of the same name in the same module, or in the one that it moved to."""
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

    def definitions(self, dotted: str) -> tuple[Definition | None, Definition | None]:
        """The definition of a full name in each release; in the newer one, at its new place if it moved."""
        old, new = self.find(dotted)
        if isinstance(old, Definition) and not isinstance(new, Definition):
            homes = self.moved_to(old.address)
            new = self.new.lookup.find(homes[0]) if homes else new
        return old if isinstance(old, Definition) else None, new if isinstance(new, Definition) else None

    def release_of(self, member: HostMember) -> Release:
        """The release that a member was read in."""
        return self.old if self.old.module(member.module.name) is member.module else self.new

    @staticmethod
    def _named(release: Release, dotted: str) -> HostClass | None:
        answer = release.find(dotted)
        if isinstance(answer, Absent) or not isinstance(answer, Definition) or not answer.address.path:
            return None
        return release.class_at(answer.address)
