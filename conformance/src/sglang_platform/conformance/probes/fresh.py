"""Start a probe in a fresh interpreter and read what it told."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sglang_platform.conformance.check import CheckFailed

if TYPE_CHECKING:
    from sglang_platform.conformance.subject import Subject

__all__ = [
    "Ending",
    "as_it_is_now",
    "beside",
    "how_it_ended",
    "probe",
    "probe_once",
    "until_it_ends",
    "whoami",
]

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


def whoami(subject: Subject) -> dict[str, Any]:
    """What a probe needs to come to the same platform."""
    return {
        "name": subject.name,
        "location": os.environ.get("SGLANG_PLATFORM_PLUGIN", "").partition("=")[2] or None,
        "host": subject.host,
    }


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
        raise _failed(process.returncode, seconds, what, err)
    return json.loads(lines[-1])  # type: ignore[no-any-return]


def probe_once(program: str, what: str, *, attempt: int = 0, **given: Any) -> dict[str, Any]:
    """What `probe` told when it was given the same before. `attempt`: of several that are to be alike."""
    asked = json.dumps([program, attempt, given], sort_keys=True)
    if asked not in _told:
        _told[asked] = probe(program, what, **given)
    return _told[asked]


_told: dict[str, dict[str, Any]] = {}


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
        said = err.read().decode(errors="replace")
    if not ready or not lines:
        raise _failed(status, seconds, what, said)
    return json.loads(lines[-1]), Ending(status, _last_lines(said))


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
            status = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(_ENDING if ready else 0)
            process.kill()
            raise _failed(status, seconds, what, process.communicate()[1])
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


def _failed(status: int | None, seconds: float, what: str, said: str) -> CheckFailed:
    """`status` is None where the process lives; `said` is what it wrote to its standard error."""
    how = f"told nothing within {seconds:g} s" if status is None else how_it_ended(status)
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    return CheckFailed(f"a fresh process {how}{last and f' ({last})'}: {what}\n{_last_lines(said)}")


def how_it_ended(status: int) -> str:
    """In words, with the name of the signal that killed it."""
    if status >= 0:
        return f"ended with status {status}"
    name = next((one.name for one in signal.Signals if one == -status), f"signal {-status}")
    return f"was killed by {name}"


def _last_lines(said: str) -> str:
    return "\n".join(said.splitlines()[-_LAST_LINES:])


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
