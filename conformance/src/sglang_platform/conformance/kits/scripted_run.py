"""The process that starts SGLang's scripted runtime on one device and has it run our scripts: a line of JSON for each.

python -m sglang_platform.conformance.kits.scripted_run MODEL JSON_OF_OPTIONS
"""

# Imports inside functions: the server's process imports this file again, and a release may lack the runtime.

from __future__ import annotations

import json
import os
import sys
import time

from sglang_platform.conformance.kits.scripts import CHUNK, SCRIPTS
from sglang_platform.conformance.kits.verdict import KitTest

__all__ = ["SCRIPTED"]

SCRIPTED = "scripted runtime"


def main(model: str, options: str) -> None:
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what SGLang prints is not the report

    def tell(name: str, outcome: str, words: str = "", seconds: float = 0.0) -> None:
        test = KitTest(SCRIPTED, name, outcome, words[-600:], round(seconds, 1))
        report.write(json.dumps(test._asdict()) + "\n")
        report.flush()

    try:
        from sglang.test.scripted_runtime.http_server import ScriptedHttpServer
    except ImportError as missing:
        tell("", "missing", f"ImportError: {missing}")
        return
    try:
        server = ScriptedHttpServer.start(model_path=model, chunked_prefill_size=CHUNK, **json.loads(options))
    except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is the answer
        for script in SCRIPTS:
            tell(script.__name__, "failed", f"{type(error).__name__}: {error}")
        return
    for script in SCRIPTS:
        started, outcome, words = time.monotonic(), "passed", ""
        try:
            server.execute_script(script)
        except Exception as error:  # noqa: BLE001 - any failure of a script is its outcome
            outcome, words = "failed", _first(error)
        tell(script.__name__, outcome, words, time.monotonic() - started)
    os._exit(0)  # whoever started this process ends the server with it


def _first(error: Exception) -> str:
    """The error that the script raised in the server: the last line of its traceback."""
    lines = str(error).strip().splitlines() or [""]
    return lines[-1] if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(*sys.argv[1:])
