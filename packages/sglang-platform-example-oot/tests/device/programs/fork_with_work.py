"""Forks while work is queued: in the child everything that needs the device is refused, and nothing hangs."""

import faulthandler
import os
import sys
import time

import torch

from sglang_platform.example_oot.device import open_device
from sglang_platform.example_oot.device_graph import DeviceGraph

device_type = open_device()
device = torch.get_device_module(device_type)
library = torch.library.Library("hostile", "DEF")
library.define("slow(Tensor(a!) x) -> ()")


def slow(x: torch.Tensor) -> None:
    time.sleep(1)
    x.add_(1)


library.impl("slow", slow, "CPU")
x = torch.ones(1 << 20, device=device_type)
event = device.Event()
graph = DeviceGraph()
graph.capture(lambda: x + 1)
graph.replay()
torch.ops.hostile.slow(x)
event.record()
if child := os.fork():
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert x[0].item() == 2
    sys.exit(0)

faulthandler.dump_traceback_later(30, exit=True)
uses = {
    "synchronize": torch.accelerator.synchronize,
    "copy": x.cpu,
    "value": lambda: x[0].item(),
    "memory": lambda: torch.empty(3, device=device_type),
    "empty_cache": device.empty_cache,
    "sum": lambda: x + 1,
    "generator": device.get_rng_state,
    "wait for an event": event.synchronize,
    "ask an event": event.query,
    "record": lambda: device.Event().record(),
    "statistics": device.mem_get_info,
    "stream": lambda: device.Stream().synchronize(),
    "replay": graph.replay,
    "resize": lambda: x.resize_(1 << 22),
}
for name, use in uses.items():
    try:
        use()
    except RuntimeError as error:
        if "fork" not in str(error):
            raise
    else:
        raise AssertionError(f"{name} was not refused")
# At its end the child gives back no memory: it is the parent's.
