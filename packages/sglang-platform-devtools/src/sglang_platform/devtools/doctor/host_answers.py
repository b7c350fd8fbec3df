"""Asks a running SGLang about the platform that it chose, in a process of its own."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from typing import Any

from sglang_platform.core.discovery.own_process import run
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin

__all__ = ["ask_host", "examine_live", "examined_live"]

_SECONDS = 180
"""Timeout for the imports of SGLang and the platform, so that a hanging plugin does not block `doctor`."""

_PROBE = "sglang_platform.core.sglang.evidence.platform_probe:main"
_EXAMINATION = "sglang_platform.devtools.doctor.live_class:examine_live_platform"
_log = logging.getLogger(__name__)


@functools.cache
def ask_host() -> dict[str, Any]:
    """Start SGLang's platform in a process of its own, once. `failed` is the reason why there is no other content."""
    _log.info("asking the platform in a running SGLang")
    answers: dict[str, Any] = {}
    ending = run(_PROBE, _EXAMINATION, answers.update, _SECONDS)
    if ending is not None:
        return {"failed": f"it {ending.how}\n{ending.output}".strip()}
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
