"""The pytest front end: options, and one test per case of each check. Loaded by pytest in every run, so it imports the
suite only where a platform is checked.

    pytest --pyargs sglang_platform.conformance --platform my_device

or, in a vendor's own tests,

    from sglang_platform.conformance import PlatformSuite

    class TestMyDevice(PlatformSuite):
        platform = "my_device"
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sglang_platform.conformance.pytest_summary import Summary

if TYPE_CHECKING:
    from sglang_platform.conformance.suite_run import SuiteRun

__all__: list[str] = []

# Imports inside functions: pytest loads this file in every run, and most runs check no platform.

_RUNS = pytest.StashKey[dict[Any, "SuiteRun"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sglang-platform", "conformance of an SGLang hardware platform")
    for name, words in {
        "": {"help": "the plugin to check, as of the command"},
        "-host": {"choices": ("none", "sglang"), "help": "as --host of the command"},
        "-seed": {"type": int, "help": "seeds the cases; default 0"},
        "-level": {"action": "append", "dest": "platform_levels", "help": "a level, by number or name"},
        "-check": {"action": "append", "dest": "platform_checks", "help": "a check, or a glob over ids"},
        "-profile": {"action": "append", "dest": "platform_profiles", "help": "a profile to judge by"},
        "-thorough": {"action": "store_const", "const": True, "help": "more cases, and larger ones"},
        "-model": {
            "action": "append",
            "dest": "platform_models",
            "help": "the config.json of a model of yours",
        },
        "-patience": {"type": float, "help": "multiplies the checks' time limits"},
        "-config": {"help": "the vendor's file; default ./conformance.toml"},
        "-report": {"type": Path, "help": "a folder for report.json and report.html"},
        "-verdict": {"action": "store_true", "help": "fail also where the verdict is not conformant"},
    }.items():
        group.addoption(f"--platform{name}", **{"default": None, **words})


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RUNS] = {}
    if not hasattr(config, "workerinput"):  # a process of pytest-xdist tells the one that started it
        config.pluginmanager.register(Summary(config), "sglang_platform_summary")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "conformance_case" not in metafunc.fixturenames:
        return
    from sglang_platform.conformance.case_ids import full_id
    from sglang_platform.conformance.suite import options_of
    from sglang_platform.conformance.suite_run import SuiteRun
    from sglang_platform.core.errors import PlatformError

    options = options_of(metafunc.cls, metafunc.config)
    if options is None:
        nobody = pytest.param(None, marks=pytest.mark.skip(reason="name a platform: --platform NAME"))
        metafunc.parametrize("conformance_case", [nobody], ids=["no platform is named"])
        return
    try:
        run = metafunc.config.stash[_RUNS][metafunc.cls] = SuiteRun(options)
    except (ValueError, PlatformError) as error:
        raise pytest.UsageError(str(error)) from None
    names = [full_id(check.id, name or "") for check, name in run.cases]
    metafunc.parametrize("conformance_case", run.cases, ids=names)


@pytest.fixture(scope="class")
def conformance_run(request: pytest.FixtureRequest) -> Iterator[SuiteRun]:
    """The processes in which the platform's code runs, shared by the tests of one class."""
    run = request.config.stash[_RUNS][request.cls]
    yield run
    run.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    """A failed case is shown as the command shows it, without a traceback through this suite. What its check came to
    goes with the report to the summary, also from a process of pytest-xdist."""
    result = yield
    run = getattr(item, "funcargs", {}).get("conformance_run")
    if run is not None and call.when == "call":
        report = result.get_result()  # type: ignore[attr-defined]
        report.conformance = run.told() or {}
        if report.failed and type(call.excinfo.value).__name__ == "NotConformant":
            report.longrepr = str(call.excinfo.value)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """A level runs in one process, in order, so that what stands on a part that is found wrong is not run."""
    if config.getoption("--platform") is None or config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class LevelScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("[")[0] + nodeid.partition("[")[2].partition(".")[0]

    config.option.loadscopereorder = False
    return LevelScheduling(config, log)
