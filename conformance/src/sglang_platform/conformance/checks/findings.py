"""What `sglang-platform doctor` finds about the plugin, from sources and metadata alone, as failures of checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotRun
from sglang_platform.conformance.subject import Subject

__all__ = ["problems"]

_SECONDS = 600


def problems(subject: Subject, ids: Sequence[str]) -> None:
    """Raise CheckFailed with each finding of these ids about this plugin, or about none in particular, as a case of its
    own. Raises NotRun where doctor cannot be run."""
    told = _findings(subject.name, subject.location, subject.distribution, subject.starts)
    found = [one for one in told if one["id"] in ids and one["severity"] != "note"]
    if not found:
        return
    first, *others = (
        CheckFailed(
            f"{one['what']}: {one['why']}" if one["why"] else str(one["what"]),
            case={"finding": one["id"], "what": one["what"]},
            fix=one["fix"],
        )
        for one in found
    )
    first.also = tuple(others)
    raise first


@cache
def _findings(
    name: str, location: str | None, distribution: str | None, starts: bool
) -> list[dict[str, Any]]:
    variables = {**os.environ, "SGLANG_PLATFORM": name, "PYTHONSAFEPATH": "1"}  # not from the working folder
    variables.pop("SGLANG_PLATFORM_PLUGIN", None)
    if location is not None:
        variables["SGLANG_PLATFORM_PLUGIN"] = f"{name}={location}"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _DOCTOR, *([] if starts else ["--source-only"])],
        env=variables,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    try:
        found = json.loads(run.stdout)["findings"]
    except (ValueError, KeyError):
        raise NotRun(f"`sglang-platform doctor` gave no answer: {run.stderr[-300:]}") from None
    return [one for one in found if _about(one, name, distribution)]


def _about(finding: dict[str, Any], name: str, distribution: str | None) -> bool:
    plugin = finding["plugin"]
    if plugin is None:
        return (
            distribution is not None and distribution.lower() in f"{finding['what']} {finding['why']}".lower()
        )
    return plugin["name"] == name or (distribution is not None and plugin["distribution"] == distribution)


_DOCTOR = "import sys; from sglang_platform.core.cli.app import app; app(['doctor', '--json', *sys.argv[1:]])"
