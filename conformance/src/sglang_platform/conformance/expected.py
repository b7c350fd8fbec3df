"""The vendor's own file, `conformance.toml`: failures that are expected, each with its reason, and declarations.

    [expected_failures]
    "memory.mha_store_reads_back" = "the firmware truncates odd head sizes; fixed in 2.1"

    [declares]                      # only where the platform class has no place for it
    supported_kv_kinds = ["mha"]

It is strict: an expected failure that passes is a failure, an id that does not exist is an error, so is a missing
reason.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_platform.conformance.outcome import Outcome
from sglang_platform.core.errors import ConfigurationError
from sglang_platform.core.spelling import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT_NAME", "VendorFile", "read_vendor_file"]

DEFAULT_NAME = "conformance.toml"
_TABLES = ("expected_failures", "declares")
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

    @property
    def expected(self) -> dict[str, str]:
        """Check id to reason."""
        return self.tables.get("expected_failures", {})  # type: ignore[no-any-return]

    def judge(self, outcome: Outcome) -> None:
        """Turn a failure that was expected into that, and a pass that was not into a failure."""
        reason = self.expected.get(outcome.id)
        if reason is None:
            return
        if outcome.status == "failed":
            outcome.status, outcome.why = "expected_failure", reason
        elif outcome.status == "passed":
            outcome.status = "unexpected_pass"
            outcome.what = f"it passes, and {self.path} expects it to fail: {reason}"
            outcome.fix = f"remove {outcome.id!r} from [expected_failures] in {self.path}"


def read_vendor_file(path: Path | None, known: list[str]) -> VendorFile:
    """The file at `path`, or `conformance.toml` in the working directory if there is one.

    Raises ConfigurationError that lists everything wrong with it. `known` are all check ids.
    """
    if path is None:
        path = Path(DEFAULT_NAME)
        if not path.is_file():
            return VendorFile()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read", why=str(error), fix="see docs/conformance.md"
        ) from None
    problems = [_unknown("table", name, _TABLES) for name in tables if name not in _TABLES]
    for name, reason in tables.get("expected_failures", {}).items():
        if name not in known:
            problems.append(_unknown("check", name, known))
        elif not isinstance(reason, str) or not reason.strip():
            problems.append(f"{name} has no reason: say in a sentence why it is expected to fail")
    problems += [
        _unknown("declaration", name, _DECLARES)
        for name in tables.get("declares", {})
        if name not in _DECLARES
    ]
    if problems:
        raise ConfigurationError(
            f"{path} has {len(problems)} problem{'s' * (len(problems) > 1)}",
            why="\n".join(f"- {problem}" for problem in problems),
            fix="`sglang-platform conformance list` prints the ids of all checks",
        )
    return VendorFile(path, tables)


def _unknown(kind: str, name: str, known: Any) -> str:
    meant = nearest(name, list(known))
    return f"there is no {kind} {name!r}" + (f"; did you mean {meant!r}?" if meant else "")
