"""For all tests of the repository."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from warm_interpreter import run_warm

Finished = subprocess.CompletedProcess[str]
RunProgram = Callable[..., Finished]
RunRanks = Callable[..., list[Finished]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that a sample leaves out, and put the files with tests that import SGLang into this process last:
    from then on the process counts as a host."""
    cases: Counter[object] = Counter()
    for item in items:
        if (sample := item.get_closest_marker("sample")) is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % sample.args[0]:
                item.add_marker("long")
            cases[test] += 1
    importing = {item for item in items if item.get_closest_marker("host") is not None}
    files = {item.path for item in importing}
    items.sort(key=lambda item: (item.path in files, item in importing))


def pytest_runtest_setup() -> None:
    """A test draws the same numbers whichever tests ran before it in its process."""
    random.seed(0)
    if "torch" in sys.modules:  # imported later, it begins with a seed of its own, always the same
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def _choice_of_a_platform_is_put_back() -> Iterator[None]:
    """What names a platform in the environment would choose it for every later test of this process."""

    def chosen() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith("SGLANG_PLATFORM")}

    before = chosen()
    yield
    after = chosen()
    if after != before:
        for name in after:
            del os.environ[name]
        os.environ.update(before)
        pytest.fail(f"the test leaves {after} in the environment, where {before} was", pytrace=False)


@pytest.fixture(autouse=True)
def _sglang_is_imported_by_tests_of_a_host_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Later tests of the process would find themselves inside a host."""
    before = "sglang" in sys.modules
    yield
    if not before and "sglang" in sys.modules and request.node.get_closest_marker("host") is None:
        pytest.fail(
            "the test imports SGLang into this process: mark it `host`, or use `run_program`", pytrace=False
        )


@pytest.fixture
def run_program(request: pytest.FixtureRequest) -> RunProgram:
    """Run a file of `programs/`, beside the test, in a process of its own: ``run_program("name.py", *arguments)``.

    It has this process's environment and folder, so that `monkeypatch` prepares them, and shows no warnings. A program
    that fails fails the test, unless `may_fail`; so does one that takes longer than `timeout` seconds. For a test of
    the host it begins with the libraries imported that SGLang imports.
    """
    programs = request.path.parent / "programs"
    warm = request.node.get_closest_marker("host") is not None

    def run(
        name: str, *arguments: str, may_fail: bool = False, timeout: float = 60, warm: bool = warm
    ) -> Finished:
        if warm:
            done = run_warm(programs / name, *arguments, timeout=timeout)
        else:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", str(programs / name), *arguments],
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
        assert may_fail or done.returncode == 0, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def run_two_ranks(run_program: RunProgram) -> RunRanks:
    """Run a program twice at once, as ranks 0 and 1: ``run_two_ranks("name.py", *arguments)``; the rank comes first."""

    def run(name: str, *arguments: str, timeout: float = 60) -> list[Finished]:
        def one(rank: int) -> Finished:
            return run_program(name, str(rank), *arguments, timeout=timeout, warm=False)

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(one, range(2)))

    return run
