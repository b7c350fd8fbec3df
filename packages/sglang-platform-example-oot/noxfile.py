"""What a vendor runs on this package: `nox -l` lists the sessions.

A vendor changes: the SGLang that is served, where torch comes from, and the sessions that need the device.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox

PLATFORM = "example_oot"
SGLANG = os.environ.get("SGLANG", "0.5.23")
WHEELS = Path(__file__).parent / "wheels"
"""Core, devtools and the suite, built in a checkout until they are on a package index; pip looks here first."""

if WHEELS.is_dir():
    os.environ["PIP_FIND_LINKS"] = f"{WHEELS} {os.environ.get('PIP_FIND_LINKS', '')}"


def install_with_sglang(session: nox.Session) -> None:
    """This package and SGLang, without the CUDA packages that SGLang's own list asks for."""
    session.install("-e", ".[test]")
    file = str(Path(session.create_tmp()).resolve() / "sglang.txt")
    session.run(
        "sglang-platform", "host", "requirements", "--host", SGLANG, "--device", PLATFORM, "--output", file
    )
    session.install("-r", file)
    session.install("--no-deps", f"sglang=={SGLANG}")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, by its defaults and `pyproject.toml`."""
    session.install("ruff>=0.15")
    session.run("ruff", "check", ".")


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
    install_with_sglang(session)
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
