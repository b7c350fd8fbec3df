"""Launches of these kernels as served models make them, for compiling without a device.

See `KernelDeclaration.launches`.
"""

from __future__ import annotations

import torch

from sglang_platform.core.portable.triton import served_attention, served_extend, served_memory, served_sparse
from sglang_platform.core.portable.triton.served_attention import Launches
from sglang_platform.rocm.kernels.decode import paged_decode
from sglang_platform.rocm.kernels.dsa_index import index_logits
from sglang_platform.rocm.kernels.dsa_store import store_packed
from sglang_platform.rocm.kernels.extend import paged_extend
from sglang_platform.rocm.kernels.kv_move import move_rows
from sglang_platform.rocm.kernels.kv_store import store_pair
from sglang_platform.rocm.kernels.quantise import quantise_per_token
from sglang_platform.rocm.kernels.tuning import ARCHITECTURES

__all__ = [
    "decode",
    "decode_selected",
    "extend",
    "index_keys",
    "move",
    "native_fp8",
    "quantise",
    "store",
    "store_packed_rows",
]


def native_fp8() -> torch.dtype:
    """The 8-bit type of a cache on the architecture at hand."""
    return {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[
        ARCHITECTURES.of(torch.device("cpu")).e4m3
    ]


def decode() -> Launches:
    return served_attention.decode_launches(paged_decode, native_fp8())


def decode_selected() -> Launches:
    return served_attention.sparse_launches(paged_decode, native_fp8())


def extend() -> Launches:
    return served_extend.extend_launches(paged_extend, native_fp8())


def index_keys() -> Launches:
    return served_sparse.index_launches(index_logits, native_fp8())


def store() -> Launches:
    return served_memory.stored_rows(store_pair, native_fp8())


def store_packed_rows() -> Launches:
    return served_memory.packed_rows(store_packed, native_fp8())


def move() -> Launches:
    return served_memory.moved_rows(move_rows)


def quantise() -> Launches:
    return served_memory.quantisation(quantise_per_token, native_fp8())
