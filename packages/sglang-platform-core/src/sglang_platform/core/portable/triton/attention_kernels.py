"""The kernels that a package hands to the attention backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sglang_platform.core.portable.triton.launch import ShapesOf

__all__ = ["AttentionKernels"]


@dataclass(frozen=True, kw_only=True)
class AttentionKernels:
    """A package's launch wrappers, with the arguments of the existing packages' wrappers: decode (one new token per
    request over the cache), extend (several), and the indexer's logits of sparse attention.

    shapes_of: the launch shapes of the portable kernels on a device.
    """

    decode: Callable[..., torch.Tensor]
    extend: Callable[..., torch.Tensor]
    index_logits: Callable[..., torch.Tensor]
    shapes_of: ShapesOf
