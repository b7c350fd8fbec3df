"""Questions for a device, and what only looks like one."""

import torch

SUPPORTED = ["cuda", "xpu", "npu"]


def is_cuda():
    return torch.cuda.is_available()


def support_triton(backend):
    return backend not in ("plain",)


def by_type(device):
    """This text names "cuda" and torch.cuda.Stream, and asks is_cuda()."""
    # neither does torch.cuda.synchronize() here
    if device.type == "cuda":
        return 1
    return device in ("cuda", "xpu")


def by_tensor(x):
    assert x.is_cuda
    return x.cuda()


def by_flag(is_cuda_graph, cuda, has_adapter):
    return is_cuda_graph and cuda and has_adapter


def choose(backend):
    if backend.is_triton():
        return torch.cuda.current_device()
    return 0
