"""Ends while a call that fails is queued."""

import torch

from sglang_platform.example_oot.device import open_device

device_type = open_device()
x = torch.ones(4, device=device_type)
x[torch.tensor([9], device=device_type)]
