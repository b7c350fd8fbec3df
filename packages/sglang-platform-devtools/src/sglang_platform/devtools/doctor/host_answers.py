"""Asks a running SGLang about the platform that it chose, in a process of its own."""

from __future__ import annotations

import functools
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.installed.modules import interpreter_flags

__all__ = ["ask_host", "examine_live", "examined_live"]

_SECONDS = 180
"""Timeout for the imports of SGLang and the platform, so that a hanging plugin does not block `doctor`."""

_PROBE = (
    "import sys; from sglang_platform.core.sglang.evidence.platform_probe import main; main(*sys.argv[1:])"
)
_EXAMINATION = "sglang_platform.devtools.doctor.live_class:examine_live_platform"
_log = logging.getLogger(__name__)


@functools.cache
def ask_host() -> dict[str, Any]:
    """Start SGLang's platform in a process of its own, once. `failed` is the reason why there is no other content."""
    _log.info("asking the platform in a running SGLang")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.json"
        try:
            run = subprocess.run(
                [sys.executable, *interpreter_flags(), "-c", _PROBE, str(path), _EXAMINATION],
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"the process did not come back within {_SECONDS} s"}
        except (OSError, subprocess.SubprocessError) as error:
            return {"failed": f"{type(error).__name__}: {error}"}
        if not path.exists():
            last = "\n".join(run.stderr.strip().splitlines()[-5:])
            return {"failed": f"the process ended with status {run.returncode}\n{last}".strip()}
        answers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return answers


def examine_live(answers: dict[str, Any]) -> Iterator[Finding]:
    """The findings about a platform derived from SGLang's classes; a problem if SGLang did not start."""
    if answers["failed"]:
        fix = "see the reason; `python -c 'import sglang.srt.platforms'` shows it in full"
        yield Finding(
            "host-failed", "problem", "SGLang's platform could not be started", None, answers["failed"], fix
        )
    for one in answers.get("classes") or ():
        plugin = one["plugin"]
        yield Finding(**{**one, "plugin": PluginOrigin(**plugin) if plugin else None})


def examined_live(was_started: bool) -> list[str]:
    """The classes that were examined in a running SGLang; empty if none was started."""
    if not was_started or not ask_host.cache_info().currsize:
        return []
    return list(ask_host().get("examined", ()))
