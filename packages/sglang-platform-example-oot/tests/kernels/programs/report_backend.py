"""Calls one operator, and prints who served it: JSON with `backend`, `lazy`, `seen` and `out`."""

import json
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sglang_platform.example_oot import kernels

lazy = "sglang_platform.example_oot.kernels.library" not in sys.modules


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


norm = kernels.rms_norm
x, weight, out = torch.ones(2, 8), torch.ones(8), torch.empty(2, 8)
with Recorder() as recorder:
    norm(x, weight, 0.0, out)
print(json.dumps({"backend": kernels.backend(), "lazy": lazy, "seen": recorder.seen, "out": out.tolist()}))
