"""Verification and draft steps told as decodes and extends, against attention with the mask written out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.core.attention.backend import AttentionBackend
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.attention.speculative import DraftPlace
from sglang_platform.core.graph.runner import Drafts

_DIM, _SLOTS, _WIDTH = 8, 64, 32


class _Pool:
    def __init__(self, generator: torch.Generator) -> None:
        self.keys, self.values = (torch.randn(_SLOTS, 1, _DIM, generator=generator) for _ in range(2))


class _Backend(AttentionBackend):
    """Decode and extend as their definition says, one request after the other."""

    def forward_decode(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, **kwargs: Any) -> Any:
        return self._rows(q, forward_batch, [1] * forward_batch.batch_size)

    def forward_extend(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, **kwargs: Any) -> Any:
        news = forward_batch.extend_seq_lens.tolist()
        assert (forward_batch.extend_prefix_lens + forward_batch.extend_seq_lens).tolist() == (
            forward_batch.seq_lens.tolist()
        )
        return self._rows(q, forward_batch, news)

    def _rows(self, q: Any, batch: Any, news: list[int]) -> Any:
        table, row, out = self.req_to_token_pool.req_to_token, 0, []
        for request, new in enumerate(news):
            slots = table[batch.req_pool_indices[request], : batch.seq_lens[request]].long()
            for i in range(new):
                seen = slots[: len(slots) - new + i + 1]
                out.append(_attention(q[row], self.token_to_kv_pool, seen))
                row += 1
        return torch.stack(out)


def _attention(query: torch.Tensor, pool: Any, slots: torch.Tensor) -> torch.Tensor:
    weights = torch.softmax(pool.keys[slots, 0] @ query, 0)
    return weights @ pool.values[slots, 0]


@pytest.fixture
def backend() -> _Backend:
    generator = torch.Generator().manual_seed(0)
    table = torch.zeros(3, _WIDTH, dtype=torch.int32)
    table[1] = torch.randperm(_SLOTS, generator=generator)[:_WIDTH]
    table[2] = torch.randperm(_SLOTS, generator=generator)[:_WIDTH]
    runner = SimpleNamespace(
        token_to_kv_pool=_Pool(generator), req_to_token_pool=SimpleNamespace(req_to_token=table), device="cpu"
    )
    return _Backend(runner)


def _layer() -> AttentionLayer:
    return AttentionLayer(0, 1, 1, 1, _DIM, _DIM, 1.0)


def _batch(
    backend: _Backend, mode: ForwardMode, prefixes: list[int], tokens: int, **fields: Any
) -> ForwardBatch:
    table = backend.req_to_token_pool.req_to_token
    rows = range(1, 1 + len(prefixes))
    places = [table[row, p + i] for row, p in zip(rows, prefixes, strict=True) for i in range(tokens)]
    return ForwardBatch(
        forward_mode=mode,
        batch_size=len(prefixes),
        req_pool_indices=torch.tensor(list(rows)),
        seq_lens=torch.tensor(prefixes),
        out_cache_loc=torch.stack(places).long(),
        **fields,
    )


_TREE = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)


@pytest.mark.parametrize("with_prefix", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_each_node_of_a_tree_sees_the_prefix_and_its_ancestors(
    backend: _Backend, with_prefix: bool, known: bool
) -> None:
    prefixes = [6, 2]
    if with_prefix:
        rows = [torch.cat((torch.ones(4, p, dtype=torch.bool), _TREE), 1).flatten() for p in prefixes]
        mask = torch.cat(rows)
    else:
        mask = _TREE.repeat(2, 1, 1).flatten()
    lengths = torch.tensor(prefixes) if known else None
    batch = _batch(
        backend, ForwardMode.TARGET_VERIFY, prefixes, 4, spec_info=Drafts(4, mask), seq_lens_cpu=lengths
    )
    q = torch.randn(8, _DIM, generator=torch.Generator().manual_seed(1))
    got = backend.forward(q, None, None, _layer(), batch)
    table = backend.req_to_token_pool.req_to_token
    for request, prefix in enumerate(prefixes):
        for node in range(4):
            slots = [*range(prefix), *(prefix + j for j in range(4) if _TREE[node, j])]
            seen = table[request + 1, slots].long()
            wanted = _attention(q[4 * request + node], backend.token_to_kv_pool, seen)
            torch.testing.assert_close(got[4 * request + node], wanted)
    assert backend.req_to_token_pool.req_to_token is table, "the request pool is not put back"


def test_a_chain_is_an_extend(backend: _Backend) -> None:
    batch = _batch(backend, ForwardMode.TARGET_VERIFY, [6, 2], 3, spec_info=Drafts(3, topk=1))
    q = torch.randn(6, _DIM, generator=torch.Generator().manual_seed(1))
    got = backend.forward(q, None, None, _layer(), batch)
    table = backend.req_to_token_pool.req_to_token
    for request, prefix in enumerate([6, 2]):
        for i in range(3):
            seen = table[request + 1, : prefix + i + 1].long()
            wanted = _attention(q[3 * request + i], backend.token_to_kv_pool, seen)
            torch.testing.assert_close(got[3 * request + i], wanted)


@pytest.mark.parametrize("captured", [False, True])
def test_each_beam_of_a_draft_reads_its_own_slots(backend: _Backend, captured: bool) -> None:
    topk, steps, step = 2, 3, 1
    backend.drafts = DraftPlace(step, topk, steps, captured)
    batch = _batch(backend, ForwardMode.DECODE, [6, 2], topk, seq_lens_cpu=torch.tensor([6, 2]))
    q = torch.randn(4, _DIM, generator=torch.Generator().manual_seed(1))
    got = backend.forward(q, None, None, _layer(), batch)
    table = backend.req_to_token_pool.req_to_token
    for request, prefix in enumerate([6, 2]):
        for beam in range(topk):
            own = [prefix + beam * steps + i for i in range(step + 1)]
            seen = table[request + 1, [*range(prefix), *own]].long()
            row = topk * request + beam
            torch.testing.assert_close(got[row], _attention(q[row], backend.token_to_kv_pool, seen))


def test_a_step_is_told_anew_when_a_forward_begins_again(backend: _Backend) -> None:
    """A captured graph runs the same batch object again with other contents."""
    batch = _batch(backend, ForwardMode.TARGET_VERIFY, [6, 2], 3, spec_info=Drafts(3, topk=1))
    q = torch.randn(6, _DIM, generator=torch.Generator().manual_seed(1))
    first = backend.forward(q, None, None, _layer(), batch)
    batch.seq_lens.copy_(torch.tensor([5, 7]))
    assert not torch.equal(first, backend.forward(q, None, None, _layer(), batch))
