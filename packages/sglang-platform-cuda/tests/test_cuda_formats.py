"""The 8-bit formats of AMD's CDNA3 are no types of a cache here, and are refused before anything is launched."""

from __future__ import annotations

import pytest
import torch

from sglang_platform.core.portable.triton.wrappers.stored_kv import stored_kv
from sglang_platform.cuda.kernels.hardware import HARDWARE, index_logits, store_pair
from sglang_platform.cuda.kv_pools import STORED

FNUZ = torch.float8_e4m3fnuz


def test_a_pool_does_not_store_them() -> None:
    assert {dtype for dtype in STORED if dtype.itemsize == 1} == {torch.float8_e4m3fn, torch.float8_e5m2}


def test_a_store_refuses_them() -> None:
    rows, cache = torch.zeros(1, 1, 16), torch.zeros(4, 1, 16, dtype=torch.uint8)
    with pytest.raises(ValueError, match="float8_e4m3fnuz is no type of a cache"):
        store_pair(rows, rows, cache, cache, torch.zeros(1, dtype=torch.int64), dtype=FNUZ)


def test_attention_refuses_a_cache_of_them() -> None:
    cache = torch.zeros(4, 1, 16).to(FNUZ)
    with pytest.raises(ValueError, match="float8_e4m3fnuz is no type of a cache"):
        stored_kv(HARDWARE, cache, cache)


def test_index_keys_of_them_are_refused() -> None:
    q, weights = torch.zeros(1, 4, 32), torch.zeros(1, 4)
    buffer, one = torch.zeros(2, 16 * 36, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match="float8_e4m3fnuz is no type of a cache"):
        index_logits(
            q, weights, buffer, torch.zeros(1, 4).int(), one, one, page_size=16, width=4, key_dtype=FNUZ
        )
