"""Page ids: numpy's array on the CPU, where a slice costs a tenth of a torch slice, a tensor on any other device."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch

__all__ = ["Ids", "as_ids", "as_tensor"]

Ids: TypeAlias = Any  # numpy.ndarray[int64] on the CPU, torch.Tensor elsewhere


def as_ids(tensor: torch.Tensor, like: Ids) -> Ids:
    """`tensor` as ids of the type and on the device of the free list `like`."""
    if isinstance(like, np.ndarray):
        return tensor.numpy()
    return tensor.to(like.device, non_blocking=True)


def as_tensor(ids: Ids) -> torch.Tensor:
    """A tensor over the same memory."""
    return torch.from_numpy(ids) if isinstance(ids, np.ndarray) else ids
