"""Names of checks and of their cases: `memory.store_reads_back[page_size=16,dtype=bfloat16]`, and globs over them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from functools import cache
from typing import Any

from sglang_platform.conformance.outcome import plain

__all__ = ["CaseNames", "case_id", "full_id", "matches", "parted"]

_LONGEST = 40


def case_id(case: Any) -> str:
    """The name of a case among those of its check: its fields, but for those that have their default, so that a field
    that is added renames nothing. A long value is cut and told apart by a digest. Empty for None."""
    if case is None:
        return ""
    if dataclasses.is_dataclass(case) and not isinstance(case, type):
        fields = {
            one.name: plain(getattr(case, one.name))
            for one in dataclasses.fields(case)
            if getattr(case, one.name) != _default(one)
        }
        return ",".join(f"{name}={_text(value)}" for name, value in fields.items()) or "default"
    if isinstance(case, dict):
        return ",".join(f"{name}={_text(plain(value))}" for name, value in case.items())
    return _text(plain(case))


def full_id(check: str, case: str) -> str:
    """The name of a case among all: that of its check, with its own in brackets."""
    return f"{check}[{case}]" if case else check


def parted(name: str) -> tuple[str, str | None]:
    """(check, case) of a name or a glob; the case is None where it names all of them."""
    check, bracket, rest = name.partition("[")
    return check, rest.removesuffix("]") if bracket else None


def matches(pattern: str, text: str) -> bool:
    """Whether a glob matches a name: `*` is any text, `?` any letter, all else is itself, brackets too."""
    return _expression(pattern).fullmatch(text) is not None


class CaseNames:
    """Gives each case of one run of a check a name of its own: one that comes again is told by its number."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def of(self, case: Any) -> str:
        name = case_id(case)
        self._given[name] = self._given.get(name, 0) + 1
        return name if self._given[name] == 1 else f"{name}#{self._given[name]}"


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = (".*" if one == "*" else "." if one == "?" else re.escape(one) for one in pattern)
    return re.compile("".join(parts), re.DOTALL)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return (
        field.default_factory() if field.default_factory is not dataclasses.MISSING else dataclasses.MISSING
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        value = json.dumps(value, separators=(",", ":")).replace('"', "")
    value = " ".join(value.split())
    if len(value) <= _LONGEST:
        return value
    return f"{value[: _LONGEST - 10]}~{hashlib.sha256(value.encode()).hexdigest()[:8]}"
