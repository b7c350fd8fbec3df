"""A process that has loaded torch, and nothing of ours: forks of it ask checks about changed packages in a second less.

    printf '{"changed": "NAME=FILE", "checks": [...], "seconds": 60}\n' | python warm.py

Answers as `ask_checks.py` does, and ends each request with a line `{"ended": how}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import hypothesis  # noqa: F401 - loaded for the forks
import jsonschema  # noqa: F401
import numpy  # noqa: F401
import torch
import torch._dynamo
import torch.distributed
import torch.utils.cpp_extension
from areas import PLATFORM

HERE = Path(__file__).parent


def main() -> int:
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            _ask(wanted)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it started
        print("\n" + json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)
    return 0


def _ask(wanted: dict[str, Any]) -> None:
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(wanted["seconds"])
    status = 1
    try:
        os.environ["CHANGED_MODULE"] = wanted["changed"]
        runpy.run_path(str(HERE / "at_start" / "sitecustomize.py"))
        sys.argv = ["ask_checks.py", PLATFORM, *wanted["checks"]]
        runpy.run_path(str(HERE / "ask_checks.py"), run_name="__main__")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:  # noqa: BLE001 - the change breaks the import
        print("\n" + json.dumps({"asked": "start", "seconds": 0.0, "failed": repr(error)}), flush=True)
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
