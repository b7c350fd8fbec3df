"""What a vendor runs on this package: `nox -l` lists the sessions.

A vendor changes: where torch comes from, and the sessions that need the device.
"""

from __future__ import annotations

import nox

PLATFORM = "example_oot"


@nox.session
def tests(session: nox.Session) -> None:
    """The package's own tests. Arguments go to pytest."""
    session.install("-e", ".[test]")
    session.run("pytest", *(session.posargs or ["tests"]))


@nox.session
def conformance(session: nox.Session) -> None:
    """The conformance suite against this platform; add `--host sglang` where SGLang is installed."""
    session.install("-e", ".[test]")
    session.run("sglang-platform", "conformance", "--platform", PLATFORM, *session.posargs)


@nox.session
def device(session: nox.Session) -> None:
    """The suite in SGLang, on a machine that has the device, to the profile that the platform is to keep."""
    session.install("-e", ".[sglang,test]")
    arguments = ("--platform", PLATFORM, "--host", "sglang", "--profile", "core")
    session.run("sglang-platform", "conformance", *arguments, *session.posargs)


@nox.session
def compare(session: nox.Session) -> None:
    """What is broken since an earlier report: `nox -s compare -- baseline/report.json report/report.json`."""
    session.install("-e", ".[test]")
    session.run("sglang-platform", "conformance", "compare", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it in this fresh environment, and see that it is found."""
    session.install("build")
    dist = session.create_tmp()
    session.run("python", "-m", "build", "--outdir", dist)
    session.install("--find-links", dist, "sglang-platform-example-oot")
    session.run("sglang-platform", "list")
