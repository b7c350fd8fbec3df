"""Remarks in SARIF 2.1.0, the form in which code hosts take findings."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from sglang_platform.core.installed.distributions import installed_version
from sglang_platform.devtools.check.remark import Checked, Remark

__all__ = ["sarif"]

_LEVELS = {"problem": "error", "warning": "warning", "note": "note"}
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ANYWHERE = "pyproject.toml"
"""The file for remarks that concern no line: code hosts require one."""


def sarif(checked: Checked) -> dict[str, Any]:
    """The remarks as one SARIF run. Paths are relative to the plugin's folder, `%SRCROOT%`."""
    ids = list(dict.fromkeys(one.id for one in checked.remarks))
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "sglang-platform check",
                        "version": installed_version("sglang-platform-core") or "0",
                        "rules": [
                            {"id": one, "shortDescription": {"text": one.replace("-", " ")}} for one in ids
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {"level": "note", "message": {"text": f"not looked at: {where}: {why}"}}
                            for where, why in checked.unread
                        ],
                    }
                ],
                "results": [_result(one, ids.index(one.id)) for one in checked.remarks],
            }
        ],
    }


def _result(one: Remark, rule: int) -> dict[str, Any]:
    text = one.what + (f": {one.why}" if one.why else "") + (f" Fix: {one.fix}" if one.fix else "")
    path = PurePosixPath(one.file or _ANYWHERE)
    uri = path.name if path.is_absolute() else path.as_posix()
    return {
        "ruleId": one.id,
        "ruleIndex": rule,
        "level": _LEVELS[one.level],
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": one.line or 1},
                }
            }
        ],
    }
