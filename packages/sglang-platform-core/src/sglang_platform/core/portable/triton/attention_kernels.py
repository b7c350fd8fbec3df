"""The kernels that a package hands to the attention backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sglang_platform.core.portable.triton.launch import ShapesOf

__all__ = ["AttentionKernels"]


@dataclass(frozen=True, kw_only=True)
class AttentionKernels:
    """The launch wrappers of a package, with the arguments that these of the packages have: one new token per request
    over the cache, several of them, and the indexer's logits of sparse attention.

    shapes_of: the launch shapes of the portable kernels on a device.
    """

    decode: Callable[..., torch.Tensor]
    extend: Callable[..., torch.Tensor]
    index_logits: Callable[..., torch.Tensor]
    shapes_of: ShapesOf
