"""Waits for the device in every way, while an operator written in Python is queued: none may keep Python to itself."""

import faulthandler
import sys
import threading
import time

import torch

from sglang_platform.example_oot.device import open_device
from sglang_platform.example_oot.device_graph import DeviceGraph

faulthandler.dump_traceback_later(60, exit=True)
device_type = open_device()
device = torch.get_device_module(device_type)
library = torch.library.Library("hostile", "DEF")
library.define("slow(Tensor(a!) x) -> ()")


def slow(x: torch.Tensor) -> None:
    time.sleep(0.2)
    x.add_(1)


library.impl("slow", slow, "CPU")
queue = torch.ops.hostile.slow


def large() -> torch.Tensor:
    return torch.ones(1 << 20, device=device_type)


def give_back() -> None:
    x, y = large(), large()
    queue(x)
    del y
    device.empty_cache()
    assert x[0].item() == 2


def drop_a_graph() -> None:
    x = large()
    graph = DeviceGraph()
    graph.capture(lambda: queue(x))
    graph.replay()
    del graph
    assert x[0].item() == 2


def take_the_last_memory() -> None:
    device.empty_cache()
    part = device.mem_get_info()[0] // 5 * 3
    x = torch.empty(part, dtype=torch.uint8, device=device_type)
    queue(x[:4])
    del x
    torch.empty(part, dtype=torch.uint8, device=device_type)


def grow() -> None:
    x = large()
    queue(x)
    x.resize_(1 << 21)
    assert x[0].item() == 2


def in_many_threads() -> None:
    def work() -> None:
        for _ in range(3):
            give_back()
            device.memory_stats()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


globals()[sys.argv[1]]()
torch.accelerator.synchronize()
print("done", flush=True)
