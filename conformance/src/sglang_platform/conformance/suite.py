"""`PlatformSuite`: the checks as tests of a class, for a vendor's own test folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from sglang_platform.conformance.outcome import Outcome
from sglang_platform.conformance.report.causes import Cause
from sglang_platform.conformance.suite_run import Case, SuiteRun

__all__ = ["PlatformSuite", "options_of"]


class NotConformant(AssertionError):
    """A case failed. The text is what the command would print."""

    def __init__(self, outcome: Outcome) -> None:
        lines = [f"{outcome.status.replace('_', ' ')} {outcome.id}"]
        fields = [*Cause(outcome.as_dict()).lines(), ("where", outcome.trace)]
        lines += [f"  {label + ':':<8}{text}".replace("\n", "\n          ") for label, text in fields if text]
        super().__init__("\n".join(lines))


class PlatformSuite:
    """Subclass it, name the platform, and pytest runs every case of every check as a test.

    A check that does not apply is skipped with its reason; an expected failure (`config`) is an xfail.
    """

    platform: ClassVar[str | None] = None
    """Its entry point or distribution, or `name=pkg.mod:Class`."""

    host: ClassVar[str] = "none"
    """"none", or "sglang"."""

    levels: ClassVar[tuple[str, ...]] = ()
    """Names or numbers; empty: all."""

    checks: ClassVar[tuple[str, ...]] = ()
    """Ids, or globs over them; empty: all."""

    profiles: ClassVar[tuple[str, ...]] = ()
    """Those to judge by; empty: what the platform claims."""

    seed: ClassVar[int] = 0

    thorough: ClassVar[bool] = False
    """More cases, and larger ones."""

    models: ClassVar[tuple[str | Path, ...]] = ()
    """The config.json of models whose shapes are checked too."""

    patience: ClassVar[float] = 1.0
    """Multiplies the time limits."""

    config: ClassVar[str | None] = None
    """The vendor's file of expected failures; None: `conformance.toml` where pytest is started, if it is there."""

    def test_check(
        self, request: pytest.FixtureRequest, conformance_case: Case, conformance_run: SuiteRun
    ) -> None:
        outcome = conformance_run.outcome(conformance_case, _chosen_with(request.node))
        if outcome.status in ("not_run", "not_applicable", "blocked", "suite_failed"):
            pytest.skip(outcome.why or "")
        if outcome.status == "expected_failure":
            pytest.xfail(outcome.why or "")
        if outcome.is_bad:
            raise NotConformant(outcome)


def _chosen_with(item: pytest.Function) -> list[Case]:
    """The cases of all tests that pytest runs of the item's class."""
    tests = [one for one in item.session.items if isinstance(one, pytest.Function) and one.cls is item.cls]
    return [one.callspec.params["conformance_case"] for one in tests if hasattr(one, "callspec")]


def options_of(suite: type[PlatformSuite] | None, config: pytest.Config) -> dict[str, Any] | None:
    """What a class runs, as JSON types: its own attributes, or the command line's options where they are given. None
    where no platform is named."""
    own = suite or PlatformSuite
    given = {name: config.getoption(f"platform_{name}") for name in (*_LISTS, *_VALUES)}
    options = {name: getattr(own, name) if given[name] is None else given[name] for name in given}
    lists = {name: [str(one) for one in options[name]] for name in _LISTS}
    platform = config.getoption("--platform") or own.platform
    return None if platform is None else {**options, **lists, "platform": platform}


_LISTS = ("levels", "checks", "profiles", "models")
_VALUES = ("host", "seed", "thorough", "patience", "config")
