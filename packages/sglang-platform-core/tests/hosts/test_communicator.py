"""The platform's communicator carries the collectives of the host's groups: two ranks, the host's own coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]


@pytest.mark.long
def test_collectives_of_a_group_go_through_the_platforms_communicator(
    tmp_path: Path, monkeypatch, run_two_ranks
) -> None:
    monkeypatch.delenv("SGLANG_PLATFORM", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    ranks = run_two_ranks("carry_collectives.py", str(tmp_path / "store"), timeout=280)
    for rank, run in enumerate(ranks):
        assert f"carried {rank}" in run.stdout
