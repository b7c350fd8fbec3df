"""The indexer's logits take a bounded part of memory, whatever the prompt and its context are."""

from __future__ import annotations

import pytest

from sglang_platform.core.portable.triton.attention_shapes import logit_chunks

MIB = 1 << 20


@pytest.mark.parametrize("tokens", [0, 1, 2, 511, 512, 513, 8192, 16385])
@pytest.mark.parametrize("width", [0, 1, 4096, 131072, 163840, 1 << 20])
def test_chunks_are_all_tokens_in_order_within_the_limit(tokens: int, width: int) -> None:
    chunks = logit_chunks(tokens, width)
    rows = list(range(tokens))
    assert [row for chunk in chunks for row in rows[chunk]] == rows
    assert all(4 * width * len(rows[chunk]) <= 256 * MIB for chunk in chunks)


def test_a_full_decode_batch_is_one_chunk() -> None:
    assert len(logit_chunks(512, 131072)) == 1
    assert len(logit_chunks(8192, 131072)) == 16
