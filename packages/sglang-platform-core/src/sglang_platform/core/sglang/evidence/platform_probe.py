"""The program that examines a platform in a running SGLang: starts the platform as a launch does.

`sglang-platform doctor` runs it in a separate process, for a platform on SGLang's own classes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import traceback
from typing import Any

from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.asking import resolve_obj
from sglang_platform.core.discovery.own_process import Tell
from sglang_platform.core.doctor.finding import Finding, describe
from sglang_platform.core.errors import LaunchRefused

__all__ = ["main"]

_BACKENDS = "sglang.srt.layers.attention.attention_registry"
"""Where attention backends are registered by name."""


def main(examination: str, tell: Tell) -> None:
    """Tell the answers.

    examination: a function by name, `(platform, origin) -> (findings, names of examined classes)`.
    """
    gc.disable()  # collection takes a third of the time of SGLang's imports, and this process is short-lived
    answers: dict[str, Any] = {"failed": None, "classes": None, "examined": []}
    try:
        _ask(answers, examination)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (what stops the launch of a host is the answer)
        answers["failed"] = "".join(traceback.format_exception_only(type(error), error)).strip()
    tell(answers)


def _ask(answers: dict[str, Any], examination: str) -> None:
    import sglang.srt.platforms as host
    from sglang.srt.plugins import load_plugins

    with contextlib.suppress(LaunchRefused):  # told where all plugins are loaded together
        load_plugins()
    platform = host.current_platform
    decision = current.decision()
    if decision is None or decision.origin is None:
        return
    with contextlib.suppress(Exception):  # a failure here also fails a launch, which reports it
        importlib.import_module(_BACKENDS)
    try:
        findings, examined = resolve_obj(examination)(platform, decision.origin)
    except Exception as error:  # noqa: BLE001 - a class of an unforeseen form is one that was not looked at
        traceback.print_exc()
        what = f"the platform class of {decision.origin.name} could not be looked at in a running SGLang"
        findings = [Finding("platform-class-unread", "note", what, decision.origin, repr(error))]
        examined = []
    answers["classes"] = [describe(one) for one in findings]
    answers["examined"] = examined
