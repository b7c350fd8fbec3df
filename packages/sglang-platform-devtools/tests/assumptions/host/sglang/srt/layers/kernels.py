"""Kernels of Triton's, launched with a gate and without."""

import torch
import triton
from sglang.srt.layers.devices import is_cuda, support_triton

_is_cuda = is_cuda()


@triton.jit
def _scale_kernel(x, n, BLOCK):
    torch.cuda.nothing_of_the_kernels_own_code()


def scale(x):
    grid = (1,)
    _scale_kernel[grid](x, 1, BLOCK=1)  # open


def scale_where_asked(x):
    if not _is_cuda:
        return x
    return _scale_kernel[(1,)](x, 1, BLOCK=1)  # gated


def scale_if_triton(x):
    if support_triton("any"):
        _scale_kernel[(1,)](x, 1, BLOCK=1)  # gated


def only_from_a_gate(x):
    _scale_kernel[(1,)](x, 1, BLOCK=1)  # open: callers are not followed


def caller(x):
    return only_from_a_gate(x) if _is_cuda else x


TABLE = {"a": scale}


def no_launch(name, x):
    return TABLE[name](x)
