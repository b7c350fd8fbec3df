"""The kinds of row that the drift table (`contract.drift`) is made of.

Each row is one change of the host's interface and converts calls in both directions: a current call to a vendor's
method in the older form, and an older host's call to the current method. A change needs nothing but its row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from sglang_platform.core.contract.signatures import broken_calls, without_annotations
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.errors import ContractError

__all__ = ["BecameField", "BecameKind", "ChangedSignature", "DriftRow", "Renamed", "checked"]


def _release(version: str) -> tuple[int, ...]:
    return Version(version).release


@dataclass(frozen=True)
class DriftRow:
    """Base of all rows: the fields and conversions that every row has."""

    old: str
    """The method as those releases call it."""
    member: str
    """The contract's member that replaces it."""
    since: str
    until: str | None
    """The first and the last release with the older form; None where the newest has it still."""

    @property
    def new(self) -> str:
        """What to write today, for messages."""
        return f"{self.member}()"

    @property
    def when(self) -> str:
        """For messages."""
        return (
            f"called from SGLang {self.since} on"
            if self.until is None
            else f"last called by SGLang {self.until}"
        )

    def in_force(self, version: str) -> bool:
        """Whether this release of the host has the older form."""
        release = _release(version)
        return _release(self.since) <= release and (self.until is None or release <= _release(self.until))

    def older_parameters(self, today: inspect.Signature | None) -> inspect.Signature:
        """What the older form takes, without `self`; `today` is the signature of `member`, None for an attribute."""
        return inspect.Signature()

    def answers(self, call: inspect.BoundArguments) -> bool:
        """Whether the older method is the one to ask for this call of `member`."""
        return True

    def ask_older(self, older: Callable[..., Any], call: inspect.BoundArguments) -> Any:
        """Put today's call to a bound method in the older form."""
        raise NotImplementedError

    def ask_today(self, today: Any, *args: Any, **kwargs: Any) -> Any:
        """Put an older host's call to today's bound method, or to the value of the attribute."""
        raise NotImplementedError


@dataclass(frozen=True)
class Renamed(DriftRow):
    """The same method under another name."""

    def older_parameters(self, today: inspect.Signature | None) -> inspect.Signature:
        return today or inspect.Signature()

    def ask_older(self, older: Callable[..., Any], call: inspect.BoundArguments) -> Any:
        return older(*call.args, **call.kwargs)

    def ask_today(self, today: Any, *args: Any, **kwargs: Any) -> Any:
        return today(*args, **kwargs)


@dataclass(frozen=True)
class BecameKind(DriftRow):
    """A method without parameters became one kind of another method: `old()` is `member(kind=...)`."""

    kind: str

    @property
    def new(self) -> str:
        return f"{self.member}(kind={self.kind!r})"

    def answers(self, call: inspect.BoundArguments) -> bool:
        # Written back, so that a fallback sees the kind by its current name.
        call.arguments["kind"] = kv_pool_kind(call.arguments["kind"])
        return bool(call.arguments["kind"] == self.kind)

    def ask_older(self, older: Callable[..., Any], call: inspect.BoundArguments) -> Any:
        return older()

    def ask_today(self, today: Any, *args: Any, **kwargs: Any) -> Any:
        return today(kind=self.kind)


@dataclass(frozen=True)
class BecameField(DriftRow):
    """A method that answered yes or no became a field of `capabilities`."""

    field: str

    @property
    def new(self) -> str:
        return f"{self.member}.{self.field}"

    def ask_today(self, today: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(today, self.field)


@dataclass(frozen=True)
class ChangedSignature(DriftRow):
    """A method took other parameters; `old` and `member` differ where it changed its name with them.

    Each adapter's signature defines a form: its parameters after the first are those of the form converted from.
    """

    older_from_today: Callable[..., Any]
    """`(older, *today's parameters)`: converts a call with the current signature and calls `older`."""
    today_from_older: Callable[..., Any]
    """`(today, *older parameters)`: converts a call with the older signature and calls `today`."""

    @property
    def new(self) -> str:
        parameters = ", ".join(
            map(str, ("self", *_behind_the_first(self.older_from_today).parameters.values()))
        )
        return f"{self.member}({parameters})"

    @property
    def older(self) -> tuple[str, ...]:
        """The names of the older parameters, without `self`."""
        return tuple(_behind_the_first(self.today_from_older).parameters)

    @property
    def host_needs_adapter(self) -> bool:
        """Whether an older host makes calls that today's method cannot take as they are."""
        older, today = _behind_the_first(self.today_from_older), _behind_the_first(self.older_from_today)
        return self.old != self.member or bool(broken_calls(older, today))

    def older_parameters(self, today: inspect.Signature | None) -> inspect.Signature:
        return without_annotations(_behind_the_first(self.today_from_older))

    def ask_older(self, older: Callable[..., Any], call: inspect.BoundArguments) -> Any:
        return self.older_from_today(older, *call.args, **call.kwargs)

    def ask_today(self, today: Any, *args: Any, **kwargs: Any) -> Any:
        """Convert a call that fits the older form, as the older host makes it; pass any other call unchanged."""
        try:
            _behind_the_first(self.today_from_older).bind(*args, **kwargs)
        except TypeError:
            return today(*args, **kwargs)
        return self.today_from_older(today, *args, **kwargs)


def _behind_the_first(adapter: Callable[..., Any]) -> inspect.Signature:
    return inspect.Signature(list(inspect.signature(adapter).parameters.values())[1:])


_KINDS = (Renamed, BecameKind, BecameField, ChangedSignature)


def checked(rows: Iterable[DriftRow]) -> tuple[DriftRow, ...]:
    """The rows as a table. Raises ContractError for a row of no known kind, and for two rows that claim one name in one
    release."""
    table = tuple(rows)
    for row in table:
        if type(row) not in _KINDS:
            raise ContractError(
                f"the drift table has a row of an unknown kind: {row!r}",
                why=f"a row is one of {', '.join(kind.__name__ for kind in _KINDS)}",
                fix="write it as one of these, or add a kind to contract/drift_rows.py",
            )
    for place, row in enumerate(table):
        for other in table[:place]:
            if row.old == other.old and (row.in_force(other.since) or other.in_force(row.since)):
                raise ContractError(
                    f"the drift table has two rows for {row.old} in one release",
                    why=f"{other!r}\n{row!r}",
                    fix="end the earlier row before the later one begins",
                )
    return table
