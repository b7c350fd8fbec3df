"""Pool, allocator, attention backend and graph runner together, without SGLang: a two-layer decoder of attention only,
prefilled and decoded through the paged cache, against dense attention in float64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang_platform.core import (
    AttentionLayer,
    ForwardBatch,
    ForwardMode,
    ReqToTokenPool,
)

from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.graph import GraphCaptureError
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool

HEADS, KV_HEADS, DIM, LAYERS, VOCABULARY, PAGE = 4, 2, 16, 2, 40, 4


class Decoder:
    """logits = E(x_n) E^T after two attention layers with a residual each."""

    def __init__(self, backend: ExampleOOTAttentionBackend) -> None:
        g = torch.Generator().manual_seed(0)
        self.backend = backend
        self.embedding = torch.randn(VOCABULARY, HEADS * DIM, generator=g) * 0.5
        self.q, self.k, self.v = (
            [torch.randn(HEADS * DIM, h * DIM, generator=g) * 0.2 for _ in range(LAYERS)]
            for h in (HEADS, KV_HEADS, KV_HEADS)
        )
        self.layers = [
            AttentionLayer(i, HEADS, KV_HEADS, KV_HEADS, DIM, DIM, DIM**-0.5) for i in range(LAYERS)
        ]

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        x = self.embedding[input_ids]
        for i, layer in enumerate(self.layers):
            x = x + self.backend.forward(x @ self.q[i], x @ self.k[i], x @ self.v[i], layer, batch)
        return x @ self.embedding.T

    def dense(self, tokens: list[int]) -> torch.Tensor:
        x = self.embedding[torch.tensor(tokens)].double()
        n = len(tokens)
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        for i in range(LAYERS):
            q = (x @ self.q[i].double()).view(n, HEADS, DIM)
            k, v = (
                (x @ w[i].double()).view(n, KV_HEADS, DIM).repeat_interleave(HEADS // KV_HEADS, 1)
                for w in (self.k, self.v)
            )
            scores = torch.einsum("qhd,khd->hqk", q, k) * DIM**-0.5
            weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
            x = x + torch.einsum("hqk,khd->qhd", weights, v).reshape(n, -1)
        return x[-1] @ self.embedding.double().T


class Serving:
    """The few lines that an engine has around the parts."""

    def __init__(self) -> None:
        self.pool = ExampleOOTMHAPool(
            size=256,
            page_size=PAGE,
            dtype=torch.float32,
            head_num=KV_HEADS,
            head_dim=DIM,
            layer_num=LAYERS,
            device="cpu",
            enable_memory_saver=False,
        )
        self.requests = ReqToTokenPool(size=8, max_context_len=64, device="cpu", enable_memory_saver=False)
        self.allocator = ExampleOOTPagedAllocator(256, PAGE, torch.float32, "cpu", self.pool, need_sort=False)
        self.model_runner = SimpleNamespace(
            token_to_kv_pool=self.pool,
            req_to_token_pool=self.requests,
            device="cpu",
            graph_batch_sizes=[1, 4],
            model_config=SimpleNamespace(vocab_size=VOCABULARY),
        )
        self.model_runner.attn_backend = self.backend = ExampleOOTAttentionBackend(self.model_runner)
        self.model_runner.model = self.model = Decoder(self.backend)

    def extend(self, rows: list[int], prompts: list[list[int]], prefix: list[int]) -> torch.Tensor:
        """Prefill prompts[i][prefix[i]:]; the earlier tokens are cached. Returns the logits of all new tokens."""
        seq = torch.tensor([len(p) for p in prompts])
        pre = torch.tensor(prefix)
        table = self.requests.req_to_token
        last = torch.tensor([int(table[r, n - 1]) if n else -1 for r, n in zip(rows, prefix, strict=True)])
        slots = self.allocator.alloc_extend(pre, pre, seq, seq, last, int((seq - pre).sum()))
        assert slots is not None
        at = 0
        for row, prompt, n in zip(rows, prompts, prefix, strict=True):
            table[row, n : len(prompt)] = slots[at : at + len(prompt) - n].to(table.dtype)
            at += len(prompt) - n
        batch = ForwardBatch(
            ForwardMode.EXTEND,
            len(rows),
            torch.tensor(rows),
            seq,
            slots,
            seq_lens_cpu=seq,
            extend_prefix_lens=pre,
            extend_seq_lens=seq - pre,
        )
        ids = torch.tensor([t for p, n in zip(prompts, prefix, strict=True) for t in p[n:]])
        self.backend.init_forward_metadata(batch)
        return self.model.forward(ids, ids, batch)

    def decode_batch(self, rows: list[int], tokens: list[list[int]]) -> ForwardBatch:
        seq = torch.tensor([len(t) for t in tokens])
        table = self.requests.req_to_token
        last = torch.tensor([int(table[r, len(t) - 2]) for r, t in zip(rows, tokens, strict=True)])
        slots = self.allocator.alloc_decode(seq, seq, last)
        assert slots is not None
        for row, t, slot in zip(rows, tokens, slots, strict=True):
            table[row, len(t) - 1] = slot
        ids = torch.tensor([t[-1] for t in tokens])
        return ForwardBatch(
            ForwardMode.DECODE,
            len(rows),
            torch.tensor(rows),
            seq,
            slots,
            seq_lens_cpu=seq,
            input_ids=ids,
            positions=seq - 1,
        )


def _close(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got.double(), expected, atol=1e-4, rtol=1e-4)


def test_prefill_in_chunks_with_a_cached_prefix_matches_dense_attention() -> None:
    serving = Serving()
    prompts = [[int(t) for t in torch.randint(0, VOCABULARY, (n,))] for n in (9, 1, 23)]
    serving.extend([1, 2, 3], [prompts[0][:5], prompts[1], prompts[2][:8]], [0, 0, 0])
    logits = serving.extend([1, 3], [prompts[0], prompts[2]], [5, 8])
    _close(logits[3], serving.model.dense(prompts[0]))
    _close(logits[-1], serving.model.dense(prompts[2]))


@pytest.mark.parametrize("rows", [[1], [1, 2, 3], [1, 2, 3, 4]])
def test_graph_replay_is_eager_decoding_and_matches_dense_attention(rows: list[int]) -> None:
    serving = Serving()
    tokens = [[(7 * r + i) % VOCABULARY for i in range(3 + 2 * r)] for r in rows]
    serving.extend(rows, tokens, [0] * len(rows))
    runner = ExampleOOTGraphRunner(serving.model_runner)
    for step in range(6):
        for t in tokens:
            t.append((t[-1] * 3 + step) % VOCABULARY)
        batch = serving.decode_batch(rows, tokens)
        assert runner.can_run_graph(batch)
        replayed = runner.execute(batch).clone()
        assert runner.bs == (1 if len(rows) == 1 else 4)
        eager = serving.model.forward(batch.input_ids, batch.positions, batch)
        if runner.bs == len(rows):
            assert torch.equal(replayed, eager)
        else:  # matrix products round differently for other numbers of rows
            torch.testing.assert_close(replayed, eager, rtol=1e-5, atol=1e-5)
        for row, t in enumerate(tokens):
            _close(replayed[row], serving.model.dense(t))


def test_a_batch_over_the_largest_bucket_is_left_to_eager() -> None:
    serving = Serving()
    runner = ExampleOOTGraphRunner(serving.model_runner)
    assert not runner.can_run_graph(SimpleNamespace(batch_size=5, forward_mode=ForwardMode.DECODE))
    assert runner.can_run_graph(SimpleNamespace(batch_size=4, forward_mode=ForwardMode.DECODE))
    assert not runner.can_run_graph(SimpleNamespace(batch_size=1, forward_mode=ForwardMode.TARGET_VERIFY))


def test_a_model_that_depends_on_values_is_refused_with_the_way_out() -> None:
    serving = Serving()
    forward = serving.model.forward

    def with_a_branch(ids: torch.Tensor, positions: torch.Tensor, batch: Any) -> torch.Tensor:
        return forward(ids, positions, batch) if ids.sum() >= 0 else forward(ids, positions, batch) * 2

    serving.model.forward = with_a_branch  # type: ignore[method-assign]
    with pytest.raises(GraphCaptureError, match="--disable-cuda-graph"):
        ExampleOOTGraphRunner(serving.model_runner)


def test_a_model_that_hides_state_from_the_graph_is_caught_by_the_proof() -> None:
    serving = Serving()
    forward = serving.model.forward
    calls = iter(range(1000))
    serving.model.forward = lambda *a: forward(*a) + next(calls)  # type: ignore[method-assign]
    with pytest.raises(GraphCaptureError, match="does not reproduce the model"):
        ExampleOOTGraphRunner(serving.model_runner)
