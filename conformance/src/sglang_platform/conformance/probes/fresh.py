"""Start a probe in a fresh interpreter and read what it told."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from sglang_platform.conformance.check import CheckFailed

__all__ = ["Ending", "as_it_is_now", "beside", "probe", "until_it_ends"]

_LAST_LINES = 15
_ENDING = 10
"""Seconds."""
_UNHEARD = (
    "DeprecationWarning",
    "FutureWarning",
    "ImportWarning",
    "RuntimeWarning",
    "SyntaxWarning",
    "UserWarning",
)
"""Kind by kind: where all were ignored from the start, a plugin that ignores all would change nothing."""


_started_with: dict[str, str] = {}


def as_it_is_now() -> None:
    """Later probes are given the environment of now, and not what code of the platform makes of it in this process."""
    _started_with.update(os.environ)


def _environment() -> dict[str, str]:
    """That of this process, without what it did not have at first; the suite's own variables are as they are now."""
    now = dict(os.environ)
    if not _started_with:
        return now
    ours = {name: value for name, value in now.items() if name.startswith(_OURS)}
    return {**{name: value for name, value in _started_with.items() if not name.startswith(_OURS)}, **ours}


_OURS = ("SGLANG_PLATFORM", "PYTHONPATH")


def probe(
    program: str,
    what: str,
    *,
    environment: Mapping[str, str | None] | None = None,
    seconds: float = 60,
    **given: Any,
) -> dict[str, Any]:
    """What `probes.<program>` tells when it is given `given`. A variable set to None is removed.

    `what` says what the probe does, for the CheckFailed that is raised where it dies or does not come back.
    """
    process = _started(program, given, environment or {}, stdin=subprocess.DEVNULL)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise CheckFailed(f"a fresh process did not come back within {seconds:g} s: {what}") from None
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode != 0 or not lines:
        tail = "\n".join(err.splitlines()[-_LAST_LINES:])
        raise CheckFailed(f"a fresh process ended with status {process.returncode}: {what}\n{tail}")
    return json.loads(lines[-1])  # type: ignore[no-any-return]


class Ending(NamedTuple):
    """How a process ended that had told all it had to tell. `status` is None where it had to be killed; `said` are the
    last lines of its standard error."""

    status: int | None
    said: str


def until_it_ends(
    program: str,
    what: str,
    *,
    within: float,
    seconds: float = 60,
    environment: Mapping[str, str | None] | None = None,
    **given: Any,
) -> tuple[dict[str, Any], Ending]:
    """What `probes.<program>` tells in its last line, and how it ends within `within` seconds of the byte that it
    writes to the descriptor `tells`. Raises CheckFailed where it tells nothing."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        told, theirs = os.pipe()
        files: dict[str, Any] = {"stdout": out, "stderr": err, "pass_fds": (theirs,)}
        process = _started(
            program, {**given, "tells": theirs}, environment or {}, stdin=subprocess.DEVNULL, **files
        )
        os.close(theirs)
        try:
            ready, _, _ = select.select([told], [], [], seconds)
            try:
                status: int | None = process.wait(within if ready else 0)
            except subprocess.TimeoutExpired:
                status = None
        finally:
            process.kill()
            process.wait()
            os.close(told)
        out.seek(0)
        err.seek(0)
        lines = [line for line in out.read().decode(errors="replace").splitlines() if line.startswith("{")]
        tail = "\n".join(err.read().decode(errors="replace").splitlines()[-_LAST_LINES:])
    if not ready or not lines:
        how = f"ended with status {status}" if ready else f"told nothing within {seconds:g} s"
        raise CheckFailed(f"a fresh process {how}: {what}\n{tail}")
    return json.loads(lines[-1]), Ending(status, tail)


@contextmanager
def beside(program: str, what: str, *, seconds: float = 60, **given: Any) -> Iterator[dict[str, Any]]:
    """What `probes.<program>` tells in its first line; it runs on beside this process, and its standard input is closed
    at the end. Raises CheckFailed where it tells nothing within `seconds`."""
    process = _started(program, given, {}, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else ""
        if not line.startswith("{"):
            process.kill()
            tail = "\n".join(process.communicate()[1].splitlines()[-_LAST_LINES:])
            raise CheckFailed(f"a fresh process told nothing within {seconds:g} s: {what}\n{tail}")
        yield json.loads(line)
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=_ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()


def _started(
    program: str,
    given: Mapping[str, Any],
    environment: Mapping[str, str | None],
    *,
    stdin: int,
    **files: Any,
) -> subprocess.Popen[str]:
    variables = {**_environment(), **environment}
    kept = {key: value for key, value in variables.items() if value is not None}
    return subprocess.Popen(
        [
            sys.executable,
            *(f"-Wignore::{one}" for one in _UNHEARD),
            "-m",
            f"sglang_platform.conformance.probes.{program}",
            json.dumps(given),
        ],
        stdin=stdin,
        text=True,
        errors="replace",  # of what a plugin prints
        env=kept,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **files},
    )
