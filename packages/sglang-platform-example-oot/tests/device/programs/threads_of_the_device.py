"""With SGLANG_EXAMPLE_OOT_CORES=5 and one thread for torch: five threads of the device, and the results of one."""

from pathlib import Path

import torch

from sglang_platform.example_oot import kernels
from sglang_platform.example_oot.device import open_device

device_type = open_device()


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape[0], weight.shape[0], device=x.device)
    kernels.linear(x, weight, None, out)
    return out


torch.set_num_threads(1)  # as SGLang does where the device is not the CPU
x, weights = torch.randn(20, 512), [torch.randn(512, 512) / 20 for _ in range(4)]
linear(x, weights[0])
before = threads()
torch.ones(2).to(device_type).cpu()
assert threads() == before + 1 + 4, "one stream, and four that help it"
on_device = [weight.to(device_type) for weight in weights]
for rows in (1, 8, 20):
    expected = x[:rows]
    for _ in range(10):
        for weight in weights:
            expected = linear(expected, weight)
    for _ in range(5):
        y = x[:rows].to(device_type)
        for _ in range(10):
            for weight in on_device:
                y = linear(y, weight)
        assert torch.equal(y.cpu(), expected), rows
assert torch.get_num_threads() == 1
