"""The table from requests to slots."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core import ReqToTokenPool
from sglang_platform.core.errors import PlatformError


class Record:
    def __init__(self) -> None:
        self.req_pool_idx: int | None = None

    @property
    def holds_kv(self) -> bool:
        return self.req_pool_idx is not None


def request() -> Any:
    return SimpleNamespace(kv=Record())


@pytest.fixture
def table() -> ReqToTokenPool:
    return ReqToTokenPool(size=4, max_context_len=10, device="cpu", enable_memory_saver=False)


def test_rows_one_to_size_are_lent_and_row_zero_is_padding(table: ReqToTokenPool) -> None:
    assert table.req_to_token.shape == (5, 10)
    assert table.req_to_token.dtype == torch.int32
    assert sorted(table.alloc_rows(4)) == [1, 2, 3, 4]
    assert table.available_size() == 0


def test_too_many_rows_change_nothing(table: ReqToTokenPool) -> None:
    table.alloc_rows(1)
    assert table.alloc_rows(4) is None
    assert table.alloc([request() for _ in range(4)]) is None
    assert table.available_size() == 3
    assert table.alloc_rows(0) == []


def test_a_request_keeps_its_row_across_chunks(table: ReqToTokenPool) -> None:
    first, second = request(), request()
    (row,) = table.alloc([first])
    rows = table.alloc([second, first])
    assert rows[1] == row == first.kv.req_pool_idx
    assert rows[0] == second.kv.req_pool_idx != row
    table.free(first)
    assert not first.kv.holds_kv
    assert table.available_size() == 3


def test_write_takes_rows_slices_and_index_tensors(table: ReqToTokenPool) -> None:
    table.write((2, slice(3, 6)), torch.tensor([7, 8, 9], dtype=torch.int32))
    table.write((torch.tensor([1, 3]), torch.tensor([0, 9])), torch.tensor([5, 6], dtype=torch.int32))
    assert table.req_to_token[2].tolist() == [0, 0, 0, 7, 8, 9, 0, 0, 0, 0]
    assert (table.req_to_token[1, 0], table.req_to_token[3, 9]) == (5, 6)


def test_generations_grow_with_every_owner_and_survive_clear(table: ReqToTokenPool) -> None:
    table.alloc_rows(4)
    table.clear()
    assert table.available_size() == 4
    (row,) = table.alloc_rows(1)
    assert table.req_generation[row] == 2
    assert table.req_generation.sum() == 5


def test_wrong_frees_are_refused(table: ReqToTokenPool) -> None:
    rows = table.alloc_rows(1)
    for wrong in (0, 5):
        with pytest.raises(PlatformError, match=f"row {wrong} "):
            table.free_rows([wrong])
    table.free_rows(rows)
    with pytest.raises(PlatformError, match="fewer are in use"):
        table.free_rows(rows)
    with pytest.raises(PlatformError, match="without a row"):
        table.free(request())


def test_what_the_host_attaches_is_told(table: ReqToTokenPool) -> None:
    seen: list[Any] = []
    table.register_on_alloc_rows(seen.append)
    table.attach_aux_cache(SimpleNamespace(free=seen.append, clear=lambda: seen.append("clear")))
    rows = table.alloc_rows(2)
    table.free_rows(rows)
    table.clear()
    assert seen == [rows, *rows, "clear"]


def test_arguments() -> None:
    for arguments in ((0, 10), (4, 0)):
        with pytest.raises(PlatformError, match=" is 0"):
            ReqToTokenPool(*arguments, "cpu", False)
