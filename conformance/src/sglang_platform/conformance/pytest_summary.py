"""What the pytest front end shows and writes at the end: a block for each cause, the verdict, and the report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Summary"]

# Imports inside functions: pytest loads this file in every run, and most runs check no platform.


class Summary:
    """In the process that the tests are reported to."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder: Path | None = config.getoption("--platform-report")
        self._by_verdict = bool(config.getoption("--platform-verdict"))
        self._started = time.time()
        # By test function: each class has a platform of its own.
        self._told: dict[str, list[dict[str, Any]]] = {}
        self._documents: dict[str, dict[str, Any]] = {}
        self._written: list[Path] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = getattr(report, "conformance", None)
        if told:
            self._told.setdefault(report.nodeid.partition("[")[0], []).append(told)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._told:
            return
        from sglang_platform.conformance.report.files import write_report
        from sglang_platform.conformance.suite_run import document_of

        for function, told in self._told.items():
            document = document_of(told, self._started, time.time() - self._started)
            self._documents[function] = document
            if self._folder is not None:
                own = "" if len(self._told) == 1 else function.split("::")[-2]
                self._written += write_report(document, self._folder / own)
            if self._by_verdict and document["verdict"]["word"] != "conformant" and not session.exitstatus:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Iterator[None]:
        """In the place of a section for each failed test: a block for each cause, as the command prints it."""
        failed = terminalreporter.stats.get("failed", [])
        shown = self._documents and not terminalreporter.no_summary
        if shown:
            self._print(terminalreporter)
            terminalreporter.stats["failed"] = [one for one in failed if not hasattr(one, "conformance")]
        yield
        if failed:
            terminalreporter.stats["failed"] = failed

    def _print(self, terminal: Any) -> None:
        from sglang_platform.conformance.cli.causes import print_causes
        from sglang_platform.core.cli.output import console

        for function, document in self._documents.items():
            if document["verdict"]["failed"]:
                terminal.write_sep("=", f"CAUSES in {function}")
                print_causes(console(), document["outcomes"])
            terminal.write_line(f"{document['platform']['name']}: {document['verdict']['headline']}")
        for path in self._written:
            terminal.write_line(f"report: {path}")
