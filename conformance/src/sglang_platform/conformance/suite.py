"""`PlatformSuite`: the checks as tests of a class, for a vendor's own test folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from sglang_platform.conformance.check import Check, registered
from sglang_platform.conformance.expected import read_vendor_file
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.report.causes import Cause
from sglang_platform.conformance.runner import Runner, Selection
from sglang_platform.core.discovery.named import platform_named
from sglang_platform.core.errors import PlatformError

__all__ = ["PlatformSuite", "selection_of"]


class NotConformant(AssertionError):
    """A check failed. The text is what the command would print."""

    def __init__(self, outcome: Outcome) -> None:
        lines = [f"{outcome.status.replace('_', ' ')} {outcome.id}"]
        fields = [*Cause(outcome.as_dict()).lines(), ("where", outcome.trace)]
        lines += [f"  {label + ':':<8}{text}".replace("\n", "\n          ") for label, text in fields if text]
        super().__init__("\n".join(lines))
        self.conformance_outcome = outcome


class NotJudged(pytest.skip.Exception):
    """A check that was not run; where it is blocked, what blocks it fails."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.why or "")
        self.conformance_outcome = outcome


class PlatformSuite:
    """Subclass it, name the platform, and pytest runs every check as a test.

    A check that does not apply is skipped with its reason; an expected failure (`config`) is an xfail.
    """

    platform: ClassVar[str | None] = None
    """Its entry point, distribution, module or folder, or `name=pkg.mod:Class`."""

    host: ClassVar[str] = "none"
    """"none", or "sglang"."""

    levels: ClassVar[tuple[str, ...]] = ()
    """Names or numbers; empty: all."""

    checks: ClassVar[tuple[str, ...]] = ()
    """Check ids; empty: all."""

    seed: ClassVar[int] = 0

    config: ClassVar[str | None] = None
    """The vendor's file of expected failures; None: `conformance.toml` where pytest is started, if it is there."""

    def test_check(self, conformance_check: Check, conformance_runner: Runner) -> None:
        outcome = conformance_runner.run_one(conformance_check)
        if outcome.status in ("not_run", "not_applicable", "blocked"):
            raise NotJudged(outcome)
        if outcome.status == "expected_failure":
            pytest.xfail(outcome.why or "")
        if outcome.is_bad:
            raise NotConformant(outcome)


def selection_of(suite: type[PlatformSuite] | None, config: pytest.Config) -> Selection | None:
    """What a class runs: its own attributes, or the command line's options where they are given.

    None where no platform is named. Raises pytest.UsageError for what cannot be understood.
    """
    option: Any = config.getoption
    platform = option("--platform") or getattr(suite, "platform", None)
    if platform is None:
        return None
    seed = option("--platform-seed")
    file = option("--platform-config") or getattr(suite, "config", None)
    try:
        return Selection(
            platform if "=" in platform else platform_named(platform),
            host=option("--platform-host") or getattr(suite, "host", "none"),
            levels=tuple(map(Level.parse, option("--platform-level") or getattr(suite, "levels", ()))),
            checks=tuple(getattr(suite, "checks", ())),
            seed=getattr(suite, "seed", 0) if seed is None else seed,
            vendor_file=read_vendor_file(Path(file) if file else None, list(registered())),
        )
    except (ValueError, PlatformError) as error:
        raise pytest.UsageError(str(error)) from None
