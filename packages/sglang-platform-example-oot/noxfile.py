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
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it in this fresh environment, and see that it is found."""
    session.install("build")
    dist = session.create_tmp()
    session.run("python", "-m", "build", "--outdir", dist)
    session.install("--find-links", dist, "sglang-platform-example-oot")
    session.run("sglang-platform", "list")
