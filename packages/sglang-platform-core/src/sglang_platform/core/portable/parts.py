"""Chooses between the platform's parts and the host's, which serve where they are as good or support more.

`SGLANG_PLATFORM_PARTS` overrides the rule: `own`, `host` or `auto` for all parts, `part=own` for one, separated by
commas, the later entry winning: `SGLANG_PLATFORM_PARTS=own,graph_runner=host`. Outside a host every part is the
platform's own. Each choice is logged once with its reason, the host's at DEBUG.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.host import PoolAsked, active_host
from sglang_platform.core.installed.modules import find

__all__ = [
    "ABSENT",
    "PARTS",
    "PARTS_VARIABLE",
    "Choice",
    "HostIfImportable",
    "OwnPools",
    "PartsRule",
    "Rule",
    "asked_of",
]

_log = logging.getLogger(__name__)

ABSENT: Final = "__absent__"
"""The attribute of a module that the adapter serves in place of a library that is missing or does not load."""

PARTS_VARIABLE: Final = "SGLANG_PLATFORM_PARTS"
PARTS: Final = ("attention", "kv_pool", "allocator", "ops", "graph_runner", "communicator")
_WHO: Final = ("auto", "own", "host")


@dataclass(frozen=True)
class Choice:
    """Whether the platform's own part serves, and why. As a rule: always the same choice."""

    own: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class OwnPools:
    """The platform's own KV pools for these `kinds` and `dtypes`, the host's pools for all others."""

    kinds: tuple[str, ...]
    dtypes: tuple[str, ...]
    reason: str
    otherwise: str

    def choose(self, kind: str, asked: PoolAsked | None) -> Choice:
        if asked is None or kind not in self.kinds or asked.dtype not in self.dtypes:
            return Choice(False, self.otherwise)
        if asked.only_the_hosts:
            return Choice(False, asked.only_the_hosts)
        return Choice(True, self.reason)


@dataclass(frozen=True)
class HostIfImportable:
    """The host's part where one of the libraries that make it fast is installed. Nothing is imported to find out.

    switch: the environment variable that makes the host use them; empty if it needs none.
    """

    libraries: tuple[str, ...]
    switch: str = ""

    def choose(self) -> Choice:
        if self.switch and os.environ.get(self.switch, "").lower() not in ("1", "true"):
            return Choice(True, f"{self.switch} does not ask for {' or '.join(self.libraries)}")
        found = next((name for name in self.libraries if _is_installed(name)), None)
        if found is None:
            return Choice(True, f"none of {', '.join(self.libraries)} is installed")
        return Choice(False, f"{found} is installed, and the host's part runs on it")


def _is_installed(library: str) -> bool:
    """False for what core's adapter put in the library's place."""
    return find(library)[0] is not None and not getattr(sys.modules.get(library), ABSENT, False)


Rule = Choice | OwnPools | HostIfImportable


class PartsRule:
    """A platform's rule, one entry per part."""

    def __init__(self, platform: str, rules: Mapping[str, Rule]) -> None:
        missing = set(PARTS) ^ set(rules)
        assert not missing, f"a rule for each part and no other: {missing}"
        self._platform = platform
        self._rules = dict(rules)
        self._said: dict[str, Choice] = {}

    def choose(self, part: str, kind: str = "") -> Choice:
        """The choice for `part` in this process; for a KV pool, the choice for the pool of `kind`.

        Raises PlatformError if the variable is malformed, or asks for a pool that the host cannot use.
        """
        who, host, rule = asked_of(part), active_host(), self._rules[part]
        asked = None if host is None else host.pool_asked
        if host is None:
            choice = Choice(True, "there is no host whose part could serve")
        elif who != "auto":
            choice = Choice(who == "own", f"{PARTS_VARIABLE} asks for it")
        elif isinstance(rule, OwnPools):
            choice = rule.choose(kind, asked)
        else:
            choice = rule if isinstance(rule, Choice) else rule.choose()
        if who == "own" and asked is not None and asked.only_the_hosts:
            raise PlatformError(
                f"{PARTS_VARIABLE} asks for the own KV pool of {self._platform!r}, which this launch cannot use",
                why=asked.only_the_hosts,
                fix=f"leave {part} out of {PARTS_VARIABLE}, or add {part}=auto",
            )
        name = f"{part} ({kind})" if kind else part
        if self._said.get(name) != choice:
            self._said[name] = choice
            server, level = ("its own", logging.INFO) if choice.own else ("the host's", logging.DEBUG)
            _log.log(level, "%s: %s is %s: %s", self._platform, name, server, choice.reason)
        return choice

    def own(self, part: str) -> bool:
        """Whether the platform's own `part` serves."""
        return self.choose(part).own


def asked_of(part: str) -> str:
    """Who is to serve `part` by `SGLANG_PLATFORM_PARTS`: own, host or auto."""
    setting = os.environ.get(PARTS_VARIABLE, "")
    answer = "auto"
    for entry in (word.strip() for word in setting.split(",")):
        if not entry:
            continue
        name, sign, who = entry.partition("=")
        if not sign:
            name, who = part, name
        if name not in PARTS or who not in _WHO:
            word = name if name not in PARTS else who
            raise PlatformError(
                f"{PARTS_VARIABLE}={setting} cannot be read at {entry!r}",
                why=f"{word!r} is neither a part ({', '.join(PARTS)}) nor one of {', '.join(_WHO)}",
                fix="write own, host or auto for all parts, or part=own for one, separated by commas",
            )
        if name == part:
            answer = who
    return answer
