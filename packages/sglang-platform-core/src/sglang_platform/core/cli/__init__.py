"""The command `sglang-platform`.

Exit status: 0 all is well, 1 a problem was found or the platform is refused, 2 the command was not understood, 3 the
command itself failed, with the error and its place on standard error.
With `--json` standard output holds one JSON document and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

__all__ = ["main", "own_faults_told"]


def main() -> None:
    """Run the command with the arguments of this process."""
    # Commands of other packages import `cli.output`, which brings no other command with it.
    try:
        from sglang_platform.core.cli.app import app
        from sglang_platform.core.cli.extensions import add_installed
    except Exception as error:
        _refuse_damage(error)
        raise

    if sys.stdout is None:  # closed by whoever called: nobody wants to read it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the whole process
    with own_faults_told():
        add_installed(app)
        app()


def _refuse_damage(error: Exception) -> None:
    """Raises LaunchRefused, which ends the process with its message, where files of core are missing or damaged."""
    from sglang_platform.core.source.damaged import told_as_damage

    with told_as_damage():
        raise error


@contextlib.contextmanager
def own_faults_told() -> Iterator[None]:
    """Around a whole command, the last to hear of an error: a line on standard error, and status 3."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  (of whatever kind it is)
        sys.exit(_own_fault(error))


def _own_fault(error: Exception) -> int:
    # Only for this message.
    from sglang_platform.core.discovery.failures import explain
    from sglang_platform.core.errors import PlatformError

    failure = PlatformError(
        "sglang-platform could not finish this command",
        why=explain(error),
        fix=_way_out(error),
    )
    print(failure, file=sys.stderr)
    return 3


def _way_out(error: Exception) -> str:
    try:
        os.getcwd()  # noqa: PTH109 - it starts faster so
    except OSError:
        return "the folder that this shell is in was removed: change to another"
    if isinstance(error, OSError):
        return "make room, or give places that can be read and written"
    return "what it was given or reads is damaged, or nested deeper than Python can follow: leave it out"
