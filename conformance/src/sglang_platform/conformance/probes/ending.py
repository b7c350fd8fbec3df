"""Import the class at `place`, say so to the descriptor `tells`, and end: with the status `ends`, or by an error that
nobody catches where it is None."""

from __future__ import annotations

import contextlib
import json
import os
import pkgutil
import sys

__all__: list[str] = []


def main() -> None:
    given = json.loads(sys.argv[1])
    with contextlib.suppress(BaseException):  # contract.platform_is_created tells
        pkgutil.resolve_name(given["place"])
    print("{}", flush=True)
    os.write(given["tells"], b".")
    if given["ends"] is None:
        raise RuntimeError("ends by an error")
    sys.exit(given["ends"])


if __name__ == "__main__":
    main()
