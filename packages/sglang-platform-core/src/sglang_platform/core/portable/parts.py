"""Whose parts serve in a host: the platform's own, or the host's where it has faster ones for this device.

`SGLANG_PLATFORM_PARTS` overrides the rule: `own`, `host` or `auto` for all parts, `part=own` for one, separated by
commas, the later entry winning: `SGLANG_PLATFORM_PARTS=own,graph_runner=host`. Outside a host every part is the
platform's own. Each answer is logged once, with its reason.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.host import active_host
from sglang_platform.core.spelling import nearest

__all__ = ["PARTS", "PARTS_VARIABLE", "Choice", "HostAlways", "HostIfImportable", "Own", "PartsRule", "Rule"]

_log = logging.getLogger(__name__)

PARTS_VARIABLE: Final = "SGLANG_PLATFORM_PARTS"
PARTS: Final = ("attention", "kv_pool", "allocator", "ops", "graph_runner", "communicator")
_WHO: Final = ("auto", "own", "host")


@dataclass(frozen=True)
class Choice:
    """Whether the platform's own part serves, and why; `beside_host` where it leaves to the host what the host does
    as well."""

    own: bool
    reason: str
    beside_host: bool = False


@dataclass(frozen=True)
class Own:
    """The platform's own part, in a host too; with `beside_host` only for what the host does worse."""

    reason: str
    beside_host: bool = False

    def choose(self) -> Choice:
        return Choice(True, self.reason, self.beside_host)


@dataclass(frozen=True)
class HostAlways:
    """The host's part."""

    reason: str

    def choose(self) -> Choice:
        return Choice(False, self.reason)


@dataclass(frozen=True)
class HostIfImportable:
    """The host's part where one of the libraries that make it fast is installed. Nothing is imported to find out."""

    libraries: tuple[str, ...]

    def choose(self) -> Choice:
        found = next((name for name in self.libraries if find_spec(name) is not None), None)
        if found is None:
            return Choice(True, f"none of {', '.join(self.libraries)} is installed")
        return Choice(False, f"{found} is installed, and the host's part runs on it")


Rule = Own | HostAlways | HostIfImportable


class PartsRule:
    """A platform's rule, one entry per part."""

    def __init__(self, platform: str, rules: Mapping[str, Rule]) -> None:
        missing = set(PARTS) ^ set(rules)
        assert not missing, f"a rule for each part and no other: {missing}"
        self._platform = platform
        self._rules = dict(rules)
        self._said: dict[str, Choice] = {}

    def choose(self, part: str) -> Choice:
        """Who serves `part` in this process. Raises PlatformError where the variable cannot be read."""
        who = _asked(part)
        if active_host() is None:
            choice = Choice(True, "there is no host whose part could serve")
        elif who == "auto":
            choice = self._rules[part].choose()
        else:
            choice = Choice(who == "own", f"{PARTS_VARIABLE} asks for it")
        if self._said.get(part) != choice:
            self._said[part] = choice
            server = "its own" if choice.own else "the host's"
            _log.info("%s: %s is %s: %s", self._platform, part, server, choice.reason)
        return choice

    def own(self, part: str) -> bool:
        """Whether the platform's own `part` serves."""
        return self.choose(part).own


def _asked(part: str) -> str:
    setting = os.environ.get(PARTS_VARIABLE, "")
    answer = "auto"
    for entry in (word.strip() for word in setting.split(",")):
        if not entry:
            continue
        name, sign, who = entry.partition("=")
        if not sign:
            name, who = part, name
        if name not in PARTS or who not in _WHO:
            raise _unreadable(setting, entry, name if name not in PARTS else who)
        if name == part:
            answer = who
    return answer


def _unreadable(setting: str, entry: str, word: str) -> PlatformError:
    meant = nearest(word, (*PARTS, *_WHO))
    return PlatformError(
        f"{PARTS_VARIABLE}={setting} cannot be read at {entry!r}",
        why=f"{word!r} is neither a part ({', '.join(PARTS)}) nor one of {', '.join(_WHO)}",
        fix=(f"did you mean {meant!r}? " if meant else "")
        + "write own, host or auto for all parts, or part=own for one, separated by commas",
    )
