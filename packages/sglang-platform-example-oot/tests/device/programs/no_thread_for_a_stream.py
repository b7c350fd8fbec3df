"""A stream whose thread cannot be started is refused; it serves once there is room, and nobody waits for ever."""

import faulthandler
import resource

import torch

from sglang_platform.example_oot.device import open_device

faulthandler.dump_traceback_later(60, exit=True)
device_type = open_device()
device = torch.get_device_module(device_type)
x = torch.ones(4, device=device_type)
torch.accelerator.synchronize()
stream = device.Stream()
with device.stream(stream):
    y = torch.empty(4, device=device_type)
    room = [bytearray(2000) for _ in range(100)]  # for the words of the refusal, which need some memory
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, before[1]))  # no room for a thread's stack
    del room[::2]
    try:
        torch.add(x, 1, out=y)
    except RuntimeError as error:
        failure = str(error)
    else:
        failure = "nothing"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert "no thread can be started" in failure, failure
    stream.synchronize()
    torch.add(x, 1, out=y)
    stream.synchronize()
assert y.tolist() == [2] * 4
print("done", flush=True)
