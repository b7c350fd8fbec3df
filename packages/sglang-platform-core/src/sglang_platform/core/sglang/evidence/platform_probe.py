"""The program behind `sglang-platform doctor --deep`: starts SGLang's platform as a launch does, and records what it
returns. `doctor.host_answers` runs it in a separate process."""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sglang_platform.core.discovery import current
from sglang_platform.core.discovery.asking import resolve_obj
from sglang_platform.core.doctor.finding import Finding, describe
from sglang_platform.core.errors import LaunchRefused, PlatformError

__all__ = ["main"]

_BACKENDS = "sglang.srt.layers.attention.attention_registry"
"""Where attention backends are registered by name."""

_OTHER_NAMES = {"is_hip": "is_rocm"}
"""SGLang's helpers that correspond to a platform method of another name."""

_WITHOUT_A_PLATFORM = {"is_hpu"}
"""Helpers for devices that have no platform: True is wrong on every platform."""


def main(path: str, *examinations: str) -> None:
    """Write the answers to `path` as JSON. What SGLang and the plugins print goes to standard error.

    examinations: functions by name, `(platform, origin) -> (findings, names of examined classes)`.
    """
    gc.disable()  # collection takes a third of the time of SGLang's imports, and this process is short-lived
    answers: dict[str, Any] = {
        "failed": None,
        "refused": None,
        "helpers": [],
        "classes": None,
        "examined": [],
    }
    with contextlib.redirect_stdout(sys.stderr):
        try:
            _ask(answers, examinations)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (what stops the launch of a host is the answer)
            answers["failed"] = "".join(traceback.format_exception_only(type(error), error)).strip()
            traceback.print_exc()
    Path(path).write_text(json.dumps(answers), encoding="utf-8")
    gc.freeze()  # else Python traverses all objects at exit


def _ask(answers: dict[str, Any], examinations: Sequence[str]) -> None:
    import sglang.srt.platforms as host
    from sglang.srt.plugins import load_plugins

    try:
        load_plugins()
    except LaunchRefused as refusal:
        answers["refused"] = _explained(refusal)
    platform = host.current_platform
    answers["platform"] = _identity(platform)
    answers["core"] = _core(platform)
    answers["helpers"] = list(_helpers(platform))
    decision = current.decision()
    if decision is not None and decision.origin is not None:
        with contextlib.suppress(Exception):  # a failure here also fails a launch, which reports it
            importlib.import_module(_BACKENDS)
        answers["classes"] = [] if examinations else None
        for examination in examinations:
            try:
                findings, examined = resolve_obj(examination)(platform, decision.origin)
            except Exception as error:  # noqa: BLE001 - a class of an unforeseen form is one that was not looked at
                traceback.print_exc()
                what = (
                    f"the platform class of {decision.origin.name} could not be looked at in a running SGLang"
                )
                findings = [Finding("platform-class-unread", "note", what, decision.origin, repr(error))]
                examined = []
            answers["classes"] += [describe(one) for one in findings]
            answers["examined"] += examined


def _core(platform: Any) -> dict[str, Any]:
    try:
        ours = current.current_platform
        identity = _identity(ours)
    except PlatformError as error:
        return {"same": False, "platform": None, "refused": _explained(error)}
    return {"same": current.is_current_platform(platform), "platform": identity, "refused": None}


def _identity(platform: Any) -> dict[str, Any]:
    cls = type(platform)
    return {
        "identity": platform._enum.name,
        "device_name": platform.device_name,
        "device_type": platform.device_type,
        "class": f"{cls.__module__}.{cls.__qualname__}",
    }


def _helpers(platform: Any) -> Any:
    """The result of each `is_*()` device check in SGLang's utils, with the platform's result for comparison."""
    import sglang.srt.utils as utils

    for name in sorted(dir(utils)):
        helper = getattr(utils, name)
        method = _OTHER_NAMES.get(name, name)
        asked = getattr(platform, method, None)
        if not name.startswith("is_") or not callable(helper) or _parameters(helper):
            continue
        if name not in _WITHOUT_A_PLATFORM and (not callable(asked) or _parameters(asked)):
            continue
        row: dict[str, Any] = {"helper": name, "answer": None, "platform": False, "error": None}
        try:
            if callable(asked) and name not in _WITHOUT_A_PLATFORM:
                row["platform"] = bool(asked())
            row["answer"] = bool(helper())
        except Exception as error:  # noqa: BLE001  (a helper that raises is reported as such)
            row["error"] = f"{type(error).__name__}: {error}"
        yield row


def _parameters(function: Any) -> bool:
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True


def _explained(error: Any) -> dict[str, Any]:
    return {
        "what": error.what,
        "plugin": error.plugin._asdict() if error.plugin else None,
        "why": error.why,
        "fix": error.fix,
    }
