"""When the scheduler's stream is held back behind a forward that it has launched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sglang_platform.core.sglang.device.stream_order import behind_the_forward
from sglang_platform.core.sglang.versions import facts_for

OVERLAP, STAGES = {"enable_overlap": True}, {"enable_overlap": False}
WINDOWS, FULL = {"is_hybrid_swa": True}, {"is_hybrid_swa": False}
OLD = {}  # SGLang 0.5.11 and 0.5.12 know no barrier
ON_CUDA, ELSEWHERE = {"_war_barrier_enabled": True}, {"_war_barrier_enabled": False}


@pytest.mark.parametrize(
    ("release", "scheduler", "waits"),
    [
        # Steps overlap: always, but where SGLang's own barrier asks the attention backend, in every mode.
        ("0.5.11", OVERLAP | FULL | OLD, True),
        ("0.5.23", OVERLAP | FULL | ELSEWHERE, True),
        ("0.5.23", OVERLAP | WINDOWS | ELSEWHERE, True),
        ("0.5.23", OVERLAP | FULL | ON_CUDA, False),
        ("0.5.22", OVERLAP | WINDOWS | ON_CUDA, False),
        # Its barrier stood before the next step only, then took the begin of a replay for the end of the reads.
        ("0.5.15", OVERLAP | WINDOWS | ON_CUDA, True),
        ("0.5.17", OVERLAP | WINDOWS | ON_CUDA, True),
        ("0.5.21", OVERLAP | FULL | ON_CUDA, True),
        # Stages of a pipeline: SGLang has no barrier, and results come back behind the scheduler's stream.
        ("0.5.23", STAGES | FULL | ELSEWHERE, False),
        ("0.5.11", STAGES | FULL | OLD, False),
        ("0.5.23", STAGES | WINDOWS | ELSEWHERE, True),
        ("0.5.23", STAGES | WINDOWS | ON_CUDA, True),
    ],
)
def test_it_waits_where_the_forward_reads_what_the_scheduler_writes(
    release: str, scheduler: dict[str, Any], waits: bool
) -> None:
    waited: list[object] = []
    forward = object()
    scheduled = SimpleNamespace(wait_stream=waited.append)
    what = SimpleNamespace(schedule_stream=scheduled, forward_stream=forward, **scheduler)
    assert behind_the_forward(facts_for(release))(object(), what, object()) is None
    assert waited == ([forward] if waits else [])
