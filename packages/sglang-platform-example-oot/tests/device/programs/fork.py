"""Forks where the device is open: the child must find none."""

import os

import torch

from sglang_platform.example_oot.device import open_device

device_type = open_device()
device = torch.get_device_module(device_type)
torch.ones(1, device=device_type)
child = os.fork()
if child == 0:
    os._exit(0 if device._is_in_bad_fork() and device.device_count() == 0 else 3)
assert os.waitpid(child, 0)[1] == 0
