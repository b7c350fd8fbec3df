"""`initialize_device(rank, local_rank)` is called once in each process that runs a model, before all else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

_PROGRAMS = Path(__file__).parent / "programs"


def test_each_worker_makes_its_device_ready_before_anything_lies_there(models: Path, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(models / "llama", "llama")
    info = tmp_path / "ready-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ready\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.platforms]\nready = ready_probe:activate\n")
    path = filter(None, [str(tmp_path), str(_PROGRAMS), os.environ.get("PYTHONPATH")])
    environment = {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    asked = reference.prompts((5, 17))
    expected = reference.greedy(checkpoint, asked, 8)
    arguments = {"model_path": str(checkpoint), "page_size": 16, "tp_size": 2, "disable_cuda_graph": True}
    with EngineProcess("ready", arguments, environment=environment) as engine:
        replies = engine.call("generate", input_ids=asked, max_new_tokens=8)
        counts = engine.counters()
    assert [reply["output_ids"] for reply in replies] == expected
    ready = {name: count for name, count in counts.items() if name.startswith("ready.")}
    assert ready == {
        "ready.rank_0.device_0": 1,
        "ready.rank_1.device_1": 1,
        "ready.groups_there": 0,
        "ready.bytes_there": 0,
    }
