"""Programs that run in a fresh interpreter and tell, as one JSON object, what they saw.

activation   a plugin is imported and asked          processes  what a spawned process has
left_behind  what importing and asking it leaves     lifecycle  what a platform's own calls leave
traces       what there is to leave, a record each   fresh      starts one and reads what it told
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["tell"]


def tell(look: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The whole of such a program: print what `look` tells of what the program was given, and end. What others print
    meanwhile goes to standard error."""
    given = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write(json.dumps(look(given), default=str) + "\n")
    answers.flush()
    os._exit(0)  # threads that a plugin left running must not keep the probe
