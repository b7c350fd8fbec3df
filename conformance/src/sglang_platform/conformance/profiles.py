"""Profiles: what a platform can be conformant to. Frozen lists of checks, one set for each edition of the suite."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from sglang_platform.core.spelling import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Profile", "edition", "judged_by", "profile", "profiles"]

_DEFAULT = "core"
"""The profile of a platform that claims none."""


@dataclass(frozen=True)
class Profile:
    """The ids of its checks, those of the profiles that it includes among them."""

    name: str
    means: str
    required: tuple[str, ...]
    """Each must pass."""

    if_brought: tuple[str, ...]
    """Each must pass where the platform declares, or brings, what it is about."""

    @property
    def checks(self) -> tuple[str, ...]:
        return self.required + self.if_brought


def edition() -> str:
    """The edition that the profiles belong to."""
    return str(_tables()["edition"])


@functools.cache
def profiles() -> dict[str, Profile]:
    """All profiles by name."""
    found: dict[str, Profile] = {}
    for name, table in _tables().items():
        if isinstance(table, dict):
            included = [found[other] for other in table.get("includes", ())]
            found[name] = Profile(
                name,
                table["means"],
                _joined(*(one.required for one in included), table.get("required", ())),
                _joined(*(one.if_brought for one in included), table.get("if_brought", ())),
            )
    return found


def profile(name: str) -> Profile:
    """The profile of that name. Raises ValueError that offers the nearest."""
    known = profiles()
    if name not in known:
        meant = nearest(name, list(known))
        hint = f"did you mean {meant!r}?" if meant else f"the profiles are {', '.join(known)}"
        raise ValueError(f"there is no profile {name!r}; {hint}")
    return known[name]


def judged_by(asked: Sequence[str], about: Mapping[str, Any]) -> list[str]:
    """The profiles that a run is judged by: those asked for, or those that the platform claims (`Runner.describe`)."""
    # A claim of what does not exist fails contract.declarations_are_understood.
    claimed = [name for name in about["declares"]["profiles"] if name in profiles()]
    return list(asked) or claimed or [_DEFAULT]


def _joined(*lists: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))


@functools.cache
def _tables() -> dict[str, object]:
    return tomllib.loads(files("sglang_platform.conformance").joinpath("profiles.toml").read_text("utf-8"))
