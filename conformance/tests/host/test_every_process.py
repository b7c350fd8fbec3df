"""A program that builds a `ModelRunner` by hand, with nobody calling `load_plugins()`: SGLang's own benchmark.

Other orders are in `packages/sglang-platform-core/tests/hosts/test_every_process.py`, an engine at once in
`test_hooks_in_processes.py`, actors under Ray in `test_ray.py`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from sglang_platform.conformance.host import processes, reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.stacks import completed
from sglang_platform.core import counters
from sglang_platform.core.counters import REPORT_DIR_VARIABLE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


def test_a_model_runner_by_hand(models: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    checkpoint, report_dir = make_checkpoint(models / "llama", "llama"), tmp_path / "report"
    done = completed(
        [sys.executable, "-W", "ignore", "-m", "sglang.benchmark.one_batch", "--model-path", checkpoint,
         "--correctness-test", "--batch-size", "1", "--output-len", "8", "--dtype", "float32", "--page-size", "16",
         "--max-total-tokens", "4096", "--mem-fraction-static", "0.5", "--sampling-backend", "pytorch"],
        env={**os.environ, "SGLANG_PLATFORM": "example_oot", REPORT_DIR_VARIABLE: str(report_dir)},
        seconds=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.search(r"input_ids=(\[\[.*?\]\])", done.stdout)
    assert found, done.stdout
    prompts = [
        [int(token) for token in re.findall(r"\d+", one)] for one in re.findall(r"\[([\d, ]+)\]", found[1])
    ]
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    for prompt, answer in zip(prompts, reference.greedy(checkpoint, prompts, 8), strict=True):
        assert tokenizer.decode(prompt + answer) in done.stdout
    counted = {
        name: count for one in counters.read_all(report_dir).values() for name, count in one.items() if count
    }
    assert counted["example_oot.kv_pool.stores"] > 0
    assert "host.attention.calls" not in counted
    (report,) = processes.read(report_dir)
    assert report["platform"]["plugin"]["name"] == "example_oot"
    assert {hook["state"] for hook in report["hooks"]} <= {"applied", "pending"}
    runner = "sglang.srt.model_executor.model_runner:ModelRunner.load_model"
    assert runner in {hook["target"] for hook in report["hooks"] if hook["state"] == "applied"}
