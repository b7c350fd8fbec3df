"""What is told of a fresh process that dies before it has told anything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from sglang_platform.conformance.check import CheckFailed
from sglang_platform.conformance.probes import fresh

_DEATHS = {
    "import os; os.kill(os.getpid(), 9)": "was killed by SIGKILL: it waits",
    "import os; os.kill(os.getpid(), 40)": "was killed by signal 40: it waits",
    "raise ValueError('no device')": r"ended with status 1 \(ValueError: no device\): it waits",
    "import sys; sys.exit(3)": "ended with status 3: it waits",
    "pass": "ended with status 0: it waits",
    "import sys; print('half', file=sys.stderr); sys.exit('the other half\\n')": r"1 \(the other half\): it waits",
}


def _beside(*given: Any) -> None:
    with fresh.beside(*given):
        pass


@pytest.mark.parametrize("code", _DEATHS)
@pytest.mark.parametrize(
    "start", [_beside, fresh.probe, lambda *given: fresh.until_it_ends(*given, within=5)]
)
def test_how_a_process_died_is_told(
    monkeypatch: pytest.MonkeyPatch, start: Callable[..., Any], code: str
) -> None:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    monkeypatch.setattr(
        fresh,
        "_started",
        lambda program, given, environment, **files: subprocess.Popen(
            [sys.executable, "-c", code], **{**pipes, **files}
        ),
    )
    with pytest.raises(CheckFailed, match=_DEATHS[code]):
        start("program", "it waits")


def test_a_process_that_lives_and_tells_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fresh,
        "_started",
        lambda *given, **files: subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **files},
        ),
    )
    with (
        pytest.raises(CheckFailed, match=r"told nothing within 0\.2 s: it waits"),
        fresh.beside("program", "it waits", seconds=0.2),
    ):
        pass
