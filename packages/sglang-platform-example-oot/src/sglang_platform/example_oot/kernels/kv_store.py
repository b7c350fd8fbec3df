"""Storing a step's keys and values in the paged KV cache: schema, and the plain torch implementation.

A vendor keeps this: the schema is what the parts call, the function what a kernel is checked against.
"""

from __future__ import annotations

import torch

__all__ = ["SCHEMAS", "store_kv"]

SCHEMAS = {"store_kv": "(Tensor k, Tensor v, Tensor(a!) k_buffer, Tensor(b!) v_buffer, Tensor loc) -> ()"}


def store_kv(
    k: torch.Tensor, v: torch.Tensor, k_buffer: torch.Tensor, v_buffer: torch.Tensor, loc: torch.Tensor
) -> None:
    """`k_buffer[loc] = k`, `v_buffer[loc] = v`.

    `k` [T, Hk, D], `v` [T, Hk, Dv], `k_buffer` [slots, Hk, D], `v_buffer` [slots, Hk, Dv], of one type and strided as
    long as the last dimension is contiguous; `loc` int64 or int32 [T]. Of several tokens for one slot (padding goes to
    slot 0) any may stay. Raises IndexError for a slot outside the buffers. Called once per layer and step.
    """
    if bool(((loc < 0) | (loc >= k_buffer.shape[0])).any()):
        raise IndexError(f"loc holds a slot outside [0, {k_buffer.shape[0]})")
    if k.dtype != k_buffer.dtype or v.dtype != v_buffer.dtype:
        raise RuntimeError(f"k and v ({k.dtype}, {v.dtype}) must have the buffers' type ({k_buffer.dtype})")
    k_buffer.index_copy_(0, loc.long(), k)
    v_buffer.index_copy_(0, loc.long(), v)
