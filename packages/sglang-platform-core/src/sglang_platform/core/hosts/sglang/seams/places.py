"""Classes of the host that several seams hook. They have these names in every release from 0.5.11 to 0.5.23."""

from __future__ import annotations

__all__ = ["GROUP_COORDINATOR", "MODEL_RUNNER", "SCHEDULER"]

GROUP_COORDINATOR = "sglang.srt.distributed.parallel_state:GroupCoordinator"
MODEL_RUNNER = "sglang.srt.model_executor.model_runner:ModelRunner"
SCHEDULER = "sglang.srt.managers.scheduler:Scheduler"
