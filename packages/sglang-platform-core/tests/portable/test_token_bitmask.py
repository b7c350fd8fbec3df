"""A grammar's mask on logits, against the bits read one by one in Python."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_token_is_allowed_where_its_bit_is_set(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 4))
    vocabulary = data.draw(st.integers(1, 150))
    words = data.draw(st.integers(1, 6))
    word = st.integers(-(2**31), 2**31 - 1)
    masks = data.draw(st.lists(st.lists(word, min_size=words, max_size=words), min_size=rows, max_size=rows))
    logits = torch.arange(rows * vocabulary, dtype=torch.float32).reshape(rows, vocabulary)
    bitmask = torch.tensor(masks, dtype=torch.int32).reshape(rows, words)
    before, mask_before = logits.clone(), bitmask.clone()
    apply_token_bitmask_(logits, bitmask)
    assert torch.equal(bitmask, mask_before)
    for row in range(rows):
        for token in range(vocabulary):
            allowed = token < 32 * words and bool((masks[row][token // 32] >> (token % 32)) & 1)
            wanted = before[row, token].item() if allowed else -math.inf
            assert logits[row, token].item() == wanted


def test_it_writes_into_a_view_of_the_logits() -> None:
    whole = torch.zeros(4, 40)
    apply_token_bitmask_(whole[1:3], torch.zeros(2, 2, dtype=torch.int32))
    assert torch.isinf(whole[1:3]).all()
    assert not torch.isinf(whole[[0, 3]]).any()
