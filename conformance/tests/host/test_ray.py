"""SGLang's schedulers as actors under Ray: nobody calls `load_plugins()` there, and the platform serves all the same.

`nox -s ray` puts Ray beside the environment and runs this file.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from sglang_platform.conformance.host import processes, reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.stacks import completed
from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE

SECONDS = 900
pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(SECONDS + 100),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: nox -s ray"),
]

NEW_TOKENS = 8
_ALONE = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray writes no token into the home folder, and tells nobody."""
PROGRAM = Path(__file__).parent / "programs" / "serve_under_ray.py"


def test_the_scheduler_actor_has_all_hooks_and_the_right_tokens(models: Path, tmp_path: Path) -> None:
    checkpoint, asked = make_checkpoint(models / "llama", "llama"), reference.prompts((5, 40, 130))
    report_dir = tmp_path / "report"
    done = completed(
        [sys.executable, "-W", "ignore", PROGRAM, checkpoint, str(NEW_TOKENS), json.dumps(asked)],
        env={**os.environ, **_ALONE, "SGLANG_PLATFORM": "example_oot", REPORT_DIR_VARIABLE: str(report_dir)},
        seconds=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    answers = next(line for line in done.stdout.splitlines() if line.startswith("answers "))
    assert json.loads(answers.partition(" ")[2]) == reference.greedy(checkpoint, asked, NEW_TOKENS)
    (pid, counts) = next(
        (pid, one) for pid, one in counters.read_all(report_dir).items() if one.get("host.process.scheduler")
    )
    assert counts["example_oot.kv_pool.stores"] > 0
    assert counts["example_oot.graph.replays"] > 0
    assert counts["host.attention.calls"] == counts["host.kv_pool.stores"] == 0
    (report,) = [one for one in processes.read(report_dir) if str(one["pid"]) == str(pid)]
    assert "ray" in " ".join(report["command"])
    assert report["platform"]["plugin"]["name"] == "example_oot"
    assert {hook["state"] for hook in report["hooks"]} <= {"applied", "pending"}
    assert "torch.cuda:set_device" in {one["target"] for one in report["hooks"] if one["state"] == "applied"}
