"""`TorchGroupCommunicator` between two processes over gloo: every collective against what it must give."""

from __future__ import annotations

from pathlib import Path


def test_two_processes_agree_on_every_collective(tmp_path: Path, run_two_ranks) -> None:
    ranks = run_two_ranks("agree_on_collectives.py", str(tmp_path / "store"), timeout=120)
    assert all(run.stdout.strip().endswith("ok") for run in ranks), ranks
