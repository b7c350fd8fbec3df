"""Core's kernels on NVIDIA GPUs, each with the facts about the devices that it needs."""

from __future__ import annotations

from functools import partial

import torch

from sglang_platform.core.portable.triton.kernels import (
    dsa_index,
    dsa_store,
    extend,
    kv_store,
    quantise,
    rotary_store,
)
from sglang_platform.core.portable.triton.wrappers.hardware import Hardware
from sglang_platform.cuda.kernels.merge import merge_equal_parts
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES

__all__ = ["HARDWARE", "index_logits", "paged_extend", "quantise_per_token", "rotate_and_store", "store_packed",
           "store_pair"]  # fmt: skip

HARDWARE = Hardware(
    ARCHITECTURES,
    {torch.float8_e4m3fn: "e4m3fn", torch.float8_e5m2: "e5m2"},
    eviction_policy="evict_first",
)
"""Data that is read once is evicted from the cache first."""

store_pair = partial(kv_store.store_pair, hardware=HARDWARE)
store_packed = partial(dsa_store.store_packed, hardware=HARDWARE)
rotate_and_store = partial(rotary_store.rotate_and_store, hardware=HARDWARE)
quantise_per_token = partial(quantise.quantise_per_token, hardware=HARDWARE)
index_logits = partial(dsa_index.index_logits, hardware=HARDWARE)
paged_extend = partial(extend.paged_extend, hardware=HARDWARE, merge_parts=merge_equal_parts)
