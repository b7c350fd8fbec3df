"""The vendor's own file, `conformance.toml`: failures that are expected, tolerances that are wider, declarations.

    [expected_failures]
    "memory.mha_store_reads_back" = "the firmware truncates odd head sizes; fixed in 2.1"
    "kernels.*[*dtype=float16*]" = { reason = "no half precision before 3.0", when = "my-plugin<3" }

    [[tolerances]]
    checks = "kernels.*_attention"
    dtype = "bfloat16"
    factor = 1.5
    reason = "partial sums are kept in bfloat16"

    [declares]                      # only where the platform class has no place for it
    supported_kv_kinds = ["mha"]

    [pool_fixtures]                 # for a plugin's own kind of KV pool: its rows to try
    my_rows = "my_plugin.testing:MyRowsFixture"

It is strict: an expectation of which nothing fails any more is a failure, and so is a tolerance that is not needed; an
id that does not exist is an error, so is a missing reason.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sglang_platform.conformance.case_ids import matches
from sglang_platform.conformance.expectation import Expectation, Tolerance
from sglang_platform.conformance.outcome import Outcome, failed_with
from sglang_platform.core.contract.pool_kinds import PLACE
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.installed.files import file_bytes
from sglang_platform.core.spelling import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT_NAME", "VendorFile", "read_vendor_file"]

DEFAULT_NAME = "conformance.toml"
_TABLES = ("expected_failures", "tolerances", "declares", "pool_fixtures")
_DECLARES = (
    "supported_kv_kinds",
    "supported_kv_dtypes",
    "supported_page_sizes",
    "attention_features",
    "kernels",
    "conformance_profiles",
)


@dataclass(frozen=True)
class VendorFile:
    """The file, read and checked; empty where there is none."""

    path: Path | None = None
    tables: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def expectations(self) -> tuple[Expectation, ...]:
        """Raises ValueError for one that cannot be understood."""
        written = self.tables.get("expected_failures", {})
        return tuple(Expectation.of(name, value) for name, value in written.items())

    @cached_property
    def tolerances(self) -> tuple[Tolerance, ...]:
        """Raises ValueError for one that cannot be understood."""
        return tuple(Tolerance.of(value) for value in self.tables.get("tolerances", ()))

    def judge(
        self, outcome: Outcome, names: Sequence[str] = (), *, thorough: bool = False, partly: bool = False
    ) -> None:
        """Turn failures that were expected into that, and an expectation of which nothing fails into a failure.

        names: of all cases that were run. partly: some cases were left out, so that nothing is known of those.
        """
        if outcome.status not in ("failed", "passed"):
            return
        rules = [one for one in self.expectations if one.is_about(outcome.id) and one.applies(thorough)]
        for one in outcome.failing:
            one["waived"] = next((rule.reason for rule in rules if rule.covers(one["id"])), None)
        left = [one for one in outcome.failing if one["waived"] is None]
        if left:
            for name, value in failed_with(left).items():
                if name != "failing":
                    setattr(outcome, name, value)
            return
        ended = bool(outcome.failing) and outcome.failing[-1]["failure"] in ("crash", "timeout")
        over = [rule for rule in rules if rule.is_over(outcome, names, partly=partly or ended)]
        wide = [
            one for one in self.tolerances if one.is_over(outcome, names, partly=partly, thorough=thorough)
        ]
        if over or wide:
            self._over(outcome, over, wide)
        elif outcome.failing:
            outcome.status = "expected_failure"
            outcome.why = "; ".join(dict.fromkeys(one["waived"] for one in outcome.failing))

    def _over(self, outcome: Outcome, rules: Sequence[Expectation], wide: Sequence[Tolerance]) -> None:
        outcome.status, outcome.failure, outcome.trace = "unexpected_pass", None, None
        told = [f"it passes, and {self.path} expects {rule.what} to fail: {rule.reason}" for rule in rules]
        told += [
            f"it passes without the tolerance that {self.path} gives {one.checks}: {one.reason}"
            for one in wide
        ]
        outcome.what = "\n".join(told)
        entries = [f"{rule.pattern!r} from [expected_failures]" for rule in rules]
        entries += [f"{one.checks!r} from [[tolerances]]" for one in wide]
        outcome.fix = f"remove {' and '.join(entries)} in {self.path}"


def read_vendor_file(path: Path | None, known: list[str]) -> VendorFile:
    """The file at `path`, or `conformance.toml` in the working directory if there is one.

    Raises ConfigurationError that lists everything wrong with it. `known` are all check ids.
    """
    if path is None:
        path = Path(DEFAULT_NAME)
        if not path.is_file():
            return VendorFile()
    try:
        tables = tomllib.loads(file_bytes(str(path)).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} cannot be read", why=str(error), fix="see docs/conformance.md"
        ) from None
    problems = [_unknown("table", name, _TABLES) for name in tables if name not in _TABLES]
    problems += _wrong(tables, known)
    problems += [
        _unknown("declaration", name, _DECLARES)
        for name in tables.get("declares", {})
        if name not in _DECLARES
    ]
    problems += [
        f'the fixture of {kind!r} is {place!r}, not a place "package.module:name"'
        for kind, place in tables.get("pool_fixtures", {}).items()
        if not (isinstance(place, str) and PLACE.fullmatch(place))
    ]
    if problems:
        raise ConfigurationError(
            f"{path} has {len(problems)} problem{'s' * (len(problems) > 1)}",
            why="\n".join(f"- {problem}" for problem in problems),
            fix="`sglang-platform conformance list` prints the ids of all checks",
        )
    return VendorFile(path, tables)


def _wrong(tables: dict[str, Any], known: list[str]) -> list[str]:
    """What is wrong with the expectations and tolerances."""
    problems: list[str] = []
    rules: list[Expectation | Tolerance] = []
    for name, value in tables.get("expected_failures", {}).items():
        try:
            rules.append(Expectation.of(name, value))
        except ValueError as error:
            problems.append(str(error))
    for value in tables.get("tolerances", ()):
        try:
            rules.append(Tolerance.of(value))
        except ValueError as error:
            problems.append(str(error))
    for rule in rules:
        if not any(matches(rule.check, one) for one in known):
            problems.append(_unknown("check", rule.check, known))
    return problems


def _unknown(kind: str, name: str, known: Any) -> str:
    if kind == "check" and ("*" in name or "?" in name):
        return f"no check fits {name!r}"
    meant = nearest(name, list(known))
    return f"there is no {kind} {name!r}" + (f"; did you mean {meant!r}?" if meant else "")
