"""`torch.cuda` under its own name and under others."""

import torch
import torch.cuda as card
from torch import cuda
from torch.cuda import Stream, nvtx


def by_its_name():
    torch.cuda.synchronize()


def by_aliases(stream: torch.cuda.Stream | None = None):
    card.empty_cache()
    cuda.Event()
    with nvtx.range("a"):
        return Stream()


def literals(device="cuda"):
    torch.zeros(1, device="cuda:0")
    return torch.device(f"cuda:{device}"), "cudart", {"cuda graph": 1}


class Op:
    def forward_cuda(self, x):
        return torch.cuda.current_stream()

    def forward_native(self, x):
        return x
