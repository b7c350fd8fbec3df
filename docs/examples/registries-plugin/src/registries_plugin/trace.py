"""What the engine does, as a trace: `lifecycle-<pid>.jsonl` in SGLANG_PLATFORM_REPORT_DIR, one event a line."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, TextIO

from sglang_platform.core.counters import REPORT_DIR_VARIABLE


class LifecycleTrace:
    """Writes nothing, and opens nothing, before the first event."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._events = 0

    def on_model_loaded(self, model_runner: Any) -> None:
        self._write("model_loaded", model=type(model_runner.model).__name__)

    def on_request_admitted(self, req: Any) -> None:
        self._write("request_admitted", rid=req.rid, prompt_tokens=len(req.origin_input_ids))

    def on_forward_end(self, forward_batch: Any, output: Any) -> None:
        self._write("forward", mode=forward_batch.forward_mode.name, batch_size=forward_batch.batch_size)

    def on_cache_flushed(self) -> None:
        self._write("cache_flushed")

    def query_report(self) -> dict[str, int]:
        return {"lifecycle_trace.events": self._events}

    def _write(self, event: str, **fields: Any) -> None:
        folder = os.environ.get(REPORT_DIR_VARIABLE)
        if folder is None:
            return
        if self._file is None:
            self._file = (Path(folder) / f"lifecycle-{os.getpid()}.jsonl").open("a", buffering=1)
        self._events += 1
        self._file.write(json.dumps({"event": event, "time": round(time.time(), 4), **fields}) + "\n")
