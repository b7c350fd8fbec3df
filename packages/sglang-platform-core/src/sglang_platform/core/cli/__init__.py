"""The command `sglang-platform`.

Exit status: 0 all is well, 1 a problem was found or the platform is refused, 2 the command was not understood.
With `--json` standard output holds one JSON document and nothing else.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of this process."""
    # Commands of other packages import `cli.output`, which brings no other command with it.
    from sglang_platform.core.cli.app import app
    from sglang_platform.core.cli.extensions import add_installed

    add_installed(app)
    app()
