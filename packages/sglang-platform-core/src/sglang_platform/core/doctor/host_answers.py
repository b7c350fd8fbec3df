"""Compares what a running SGLang reports about its device with the platform that it chose."""

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

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import DOCTOR_GROUP
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.installed.modules import find, interpreter_flags

__all__ = ["ask_host", "examine_answers", "examine_live", "examined_live"]

_SECONDS = 180
"""Timeout for the imports of SGLang and the platform, so that a hanging plugin does not block `doctor`."""

_PROBE = (
    "import sys; from sglang_platform.core.sglang.evidence.platform_probe import main; main(*sys.argv[1:])"
)
_log = logging.getLogger(__name__)

_EXAMINATION = "live_platform"
"""The name in the group `sglang_platform.doctor`: `(platform, origin) -> (findings, names of examined classes)`."""


@functools.cache
def ask_host() -> dict[str, Any] | None:
    """Start SGLang's platform in a process of its own, once; None where SGLang is not installed.

    If the answer has `failed`, it is the reason why there is no other content.
    """
    if find("sglang")[0] is None:
        return None
    _log.info("asking the platform in a running SGLang")
    examinations = [record.value for record in scan.records(DOCTOR_GROUP) if record.name == _EXAMINATION]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.json"
        try:
            run = subprocess.run(
                [sys.executable, *interpreter_flags(), "-c", _PROBE, str(path), *examinations],
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


def examine_answers(answers: dict[str, Any] | None) -> Iterator[Finding]:
    """The findings from the result of `ask_host`."""
    if answers is None:
        yield Finding("host-not-installed", "note", "SGLang is not installed, so --deep had nothing to start")
        return
    if answers.get("refused"):
        yield _refusal(answers["refused"])
    if answers.get("failed"):
        fix = "see the reason; `python -c 'import sglang.srt.platforms'` shows it in full"
        yield Finding(
            "host-failed", "problem", "SGLang's platform could not be started", None, answers["failed"], fix
        )
        return
    yield _platforms(answers["platform"], answers["core"])
    yield from _helpers(answers["platform"], answers["helpers"])


def examined_live(was_started: bool) -> list[str]:
    """The classes that were examined in a running SGLang; empty if none was started."""
    if not was_started or not ask_host.cache_info().currsize:
        return []
    return list((ask_host() or {}).get("examined", ()))


def examine_live(answers: dict[str, Any]) -> Iterator[Finding] | None:
    """The findings about a platform derived from SGLang's classes; None if it was not examined."""
    if answers["failed"] or answers["classes"] is None:
        return None
    return (Finding(**{**one, "plugin": _origin(one["plugin"])}) for one in answers["classes"])


def _origin(plugin: dict[str, Any] | None) -> PluginOrigin | None:
    return PluginOrigin(**plugin) if plugin else None


def _refusal(refused: dict[str, Any]) -> Finding:
    plugin = _origin(refused["plugin"])
    return Finding("host-refused", "problem", refused["what"], plugin, refused["why"], refused["fix"])


def _platforms(host: dict[str, Any], core: dict[str, Any]) -> Finding:
    if core["same"]:
        return Finding(
            "host-platform-same", "note", f"SGLang and core hold one platform object: {_named(host)}"
        )
    if core["refused"]:
        refused = core["refused"]
        plugin = _origin(refused["plugin"])
        what = f"SGLang ended on {_named(host)}, where core refuses: {refused['what']}"
        return Finding("host-platform-differs", "problem", what, plugin, refused["why"], refused["fix"])
    return Finding(
        "host-platform-differs",
        "problem",
        f"SGLang ended on {_named(host)}, core on {_named(core['platform'])}",
        None,
        "SGLang resolved its platform by its own rules, and nothing of this project was asked",
        "set SGLANG_PLATFORM to the plugin's name, keep sglang_platform_core in SGLANG_PLUGINS, and decorate the "
        "plugin's activate() with platform_plugin",
    )


def _helpers(platform: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[Finding]:
    where = "sglang.srt.utils"
    for row in rows:
        name, answer = row["helper"], row["answer"]
        if row["error"]:
            yield Finding(
                "host-helper-failed",
                "warning",
                f"SGLang's {name}() raises on this machine",
                None,
                f"{row['error']}; modules of SGLang that ask it cannot be imported",
                f"make that device visible or uninstall its library, or replace {where}.common:{name} by a hook",
            )
        elif answer != row["platform"]:
            yield Finding(
                "host-helper-mismatch",
                "warning",
                f"SGLang's {name}() answers {answer}, the platform is {_named(platform)}",
                None,
                f"SGLang's code that asks {where}.{name} "
                + ("takes this process for that device" if answer else "does not take it for what it is"),
                _helper_fix(name, answer),
            )
    if rows:
        said = ", ".join(f"{row['helper']} {'error' if row['error'] else row['answer']}" for row in rows)
        yield Finding(
            "host-helpers", "note", f"beside {_named(platform)}, SGLang's own helpers answer: {said}"
        )


def _helper_fix(name: str, answer: bool) -> str:
    hook = f"replace sglang.srt.utils.common:{name} by a hook that answers {not answer}"
    if name == "is_cpu":
        return f"{'unset' if answer else 'set'} SGLANG_USE_CPU_ENGINE{'' if answer else '=1'}, or {hook}"
    if answer and name in ("is_cuda", "is_cuda_alike"):
        return f"hide the other devices (CUDA_VISIBLE_DEVICES=), or {hook}"
    return hook


def _named(platform: dict[str, Any]) -> str:
    return f"{platform['device_name']} ({platform['identity']}, {platform['class']})"
