"""The example, and what it sees when its worker's device is to be made ready; on the path of SGLang's processes."""

from __future__ import annotations

import torch

from sglang_platform.core import counter
from sglang_platform.example_oot.platform import ExampleOOTPlatform


class DeviceMadeReady(ExampleOOTPlatform):
    """Counts the call under its ranks, and what of the process was there too early."""

    def initialize_device(self, rank: int, local_rank: int) -> None:
        counter(f"ready.rank_{rank}.device_{local_rank}").add()
        counter("ready.groups_there").add(int(torch.distributed.is_initialized()))
        counter("ready.bytes_there").add(torch.accelerator.memory_allocated(0))
