"""The pytest front end: options, and one test per check. Loaded by pytest in every run, so it imports the suite
only where a platform is checked.

    pytest --pyargs sglang_platform.conformance --platform my_device

or, in a vendor's own tests,

    from sglang_platform.conformance import PlatformSuite

    class TestMyDevice(PlatformSuite):
        platform = "my_device"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sglang_platform.conformance.runner import Runner

__all__: list[str] = []

# Imports inside functions: pytest loads this file in every run, and most runs check no platform.


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sglang-platform", "conformance of an SGLang hardware platform")
    group.addoption("--platform", help="the plugin to check, as of the command", default=None)
    group.addoption(
        "--platform-host", choices=("none", "sglang"), default=None, help="as --host of the command"
    )
    group.addoption("--platform-seed", type=int, default=None, help="seeds the cases; default 0")
    group.addoption("--platform-level", action="append", default=None, help="a level, by number or name")
    group.addoption("--platform-config", default=None, help="the vendor's file; default ./conformance.toml")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "conformance_check" not in metafunc.fixturenames:
        return
    from sglang_platform.conformance.suite import selection_of

    selection = selection_of(metafunc.cls, metafunc.config)
    if selection is None:
        nobody = pytest.param(None, marks=pytest.mark.skip(reason="name a platform: --platform NAME"))
        metafunc.parametrize("conformance_check", [nobody], ids=["no platform is named"])
        return
    checks = selection.chosen()
    metafunc.parametrize("conformance_check", checks, ids=[check.id for check in checks], scope="class")


@pytest.fixture(scope="class")
def conformance_runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """The processes in which the platform's code runs, shared by the tests of one class."""
    from sglang_platform.conformance.runner import Runner
    from sglang_platform.conformance.suite import selection_of

    selection = selection_of(request.cls, request.config)
    assert selection is not None
    runner = Runner(selection)
    yield runner
    runner.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    """A failed check is shown as the command shows it, without a traceback through this suite. The report takes its
    outcome to the summary, also from a process of pytest-xdist."""
    result = yield
    report = result.get_result()  # type: ignore[attr-defined]
    outcome = getattr(call.excinfo and call.excinfo.value, "conformance_outcome", None)
    if outcome is not None:
        report.conformance_outcome = outcome.as_dict()
        if report.failed:
            report.longrepr = str(call.excinfo.value)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """In the place of a section for each failed check: a block for each cause, as the command prints it."""
    stats = terminalreporter.stats
    failed = stats.get("failed", [])
    told: dict[str, list[Any]] = {}  # by test function: each class has a platform of its own
    for report in (*failed, *stats.get("skipped", ())):
        if hasattr(report, "conformance_outcome"):
            told.setdefault(report.nodeid.partition("[")[0], []).append(report.conformance_outcome)
    if told and failed and not terminalreporter.no_summary:
        from sglang_platform.conformance.cli.causes import print_causes
        from sglang_platform.core.cli.output import console

        stats["failed"] = [one for one in failed if not hasattr(one, "conformance_outcome")]
        for function, outcomes in told.items():
            terminalreporter.write_sep("=", f"CAUSES in {function}")
            print_causes(console(), outcomes)
    yield
    stats["failed"] = failed
