"""The command `sglang-platform`.

Exit status: 0 all is well, 1 a problem was found or the platform is refused, 2 the command was not understood, 3 the
command itself failed, with the error and its place on standard error.
With `--json` standard output holds one JSON document and nothing else.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of this process."""
    # Commands of other packages import `cli.output`, which brings no other command with it.
    from sglang_platform.core.cli.app import app
    from sglang_platform.core.cli.extensions import add_installed

    try:
        add_installed(app)
        app()
    except Exception as error:  # noqa: BLE001  (the last to hear of it: a line, and a status that says so)
        sys.exit(_own_fault(error))


def _own_fault(error: Exception) -> int:
    # Only for this message.
    from sglang_platform.core.discovery.failures import explain
    from sglang_platform.core.errors import PlatformError

    failure = PlatformError(
        "sglang-platform could not finish this command",
        why=explain(error),
        fix="what it was given or reads is damaged, or nested deeper than Python can follow: leave it out",
    )
    print(failure, file=sys.stderr)
    return 3
