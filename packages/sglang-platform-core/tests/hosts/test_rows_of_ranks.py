"""Rows of one rank among those of all, as SGLang's kernel copies them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sglang_platform.core.sglang.attention.data_parallel import copy_rows


@pytest.mark.parametrize("on_device", [False, True], ids=["numbers", "tensors"])
@pytest.mark.parametrize("shape", [(3,), (3, 2), ()], ids=str)
@pytest.mark.parametrize(
    ("local", "whole", "offset", "count"),
    [(4, 10, 0, 4), (4, 10, 3, 4), (4, 10, 6, 4), (5, 10, 3, 2), (4, 10, 8, 4), (4, 10, 3, 0), (1, 1, 0, 1)],
)
def test_rows_go_to_their_place_and_back(
    local: int, whole: int, offset: int, count: int, shape: tuple[int, ...], on_device: bool
) -> None:
    given: list[Any] = [torch.tensor(offset), torch.tensor(count)] if on_device else [offset, count]
    mine, all_of_them = torch.randn(local, *shape), torch.randn(whole, *shape)
    moved = min(count, local, whole - offset)
    expected = all_of_them.clone()
    expected[offset : offset + moved] = mine[:moved]
    target = all_of_them.clone()
    copy_rows(target, mine, *given, False)
    assert torch.equal(target, expected)
    expected = mine.clone()
    expected[:moved] = all_of_them[offset : offset + moved]
    target = mine.clone()
    copy_rows(target, all_of_them, *given, True)
    assert torch.equal(target, expected)
