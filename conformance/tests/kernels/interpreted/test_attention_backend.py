"""The attention backend of the package `KERNELS_OF` on core's own pools: what a step stores it also reads, for every
kind of model.
"""

from __future__ import annotations

import importlib
import itertools
import os
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglang_platform.conformance.kernels.case import compare
from sglang_platform.conformance.kernels.checks.attention_oracle import Rule, attention
from sglang_platform.core import DSATokenToKVPool, MHATokenToKVPool, MLATokenToKVPool, ReqToTokenPool
from sglang_platform.core.attention.batch import AttentionLayer, ForwardBatch, ForwardMode
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.graph.runner import Drafts
from sglang_platform.core.portable.triton import attention_shapes

PACKAGE = f"sglang_platform.{os.environ['KERNELS_OF']}"
_BACKEND = importlib.import_module(f"{PACKAGE}.attention.backend")
Backend = getattr(_BACKEND, _BACKEND.__all__[0])
PAGE, BF16 = 4, torch.bfloat16


def runner(pool: Any, requests: int, context: int = 64) -> SimpleNamespace:
    table = ReqToTokenPool(requests + 1, context, "cpu", False)
    generator = torch.Generator().manual_seed(5)
    pages = torch.randperm(pool.size // PAGE, generator=generator) + 1
    for request in range(requests):
        own = pages[request * context // PAGE :][: context // PAGE]
        slots = (own[:, None] * PAGE + torch.arange(PAGE)).reshape(-1)
        table.req_to_token[request + 1, : len(slots)] = slots.int()
    return SimpleNamespace(token_to_kv_pool=pool, req_to_token_pool=table, device="cpu")


def batch(model: SimpleNamespace, mode: ForwardMode, prefix: list[int], new: list[int]) -> ForwardBatch:
    rows = torch.arange(1, len(new) + 1)
    table = model.req_to_token_pool.req_to_token
    slots = [table[r, p : p + n] for r, p, n in zip(rows.tolist(), prefix, new, strict=True)]
    total = torch.tensor(prefix) + torch.tensor(new)
    return ForwardBatch(
        forward_mode=mode,
        batch_size=len(new),
        req_pool_indices=rows,
        seq_lens=total,
        seq_lens_cpu=total,
        seq_lens_sum=int(total.sum()),
        out_cache_loc=torch.cat(slots).long(),
        extend_prefix_lens=torch.tensor(prefix, dtype=torch.int32),
        extend_seq_lens=torch.tensor(new, dtype=torch.int32),
        extend_prefix_lens_cpu=prefix,
        extend_seq_lens_cpu=new,
    )


def layer(q_heads: int, kv_heads: int, dim: int, values: int, **more: Any) -> AttentionLayer:
    return AttentionLayer(0, q_heads, kv_heads, kv_heads, dim, values, dim**-0.5, **more)


def randn(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(BF16)


def step(backend: Any, model: Any, mode: ForwardMode, prefix: list[int], new: list[int], q: Any, k: Any, v: Any,
         at: AttentionLayer, **kwargs: Any) -> torch.Tensor:  # fmt: skip
    one = batch(model, mode, prefix, new)
    backend.init_forward_metadata(one)
    return backend.forward(q.flatten(1), k.flatten(1), v.flatten(1), at, one, **kwargs)


def test_chunks_then_decode_with_a_window_sinks_and_a_cap() -> None:
    pool = MHATokenToKVPool(64, PAGE, BF16, 2, 64, 1, "cpu", False)
    for buffer in (*pool.k_buffer, *pool.v_buffer):
        buffer.fill_(float("nan"))
    model = runner(pool, 1)
    backend = Backend(model)
    sinks = randn(4, seed=9)
    at = layer(4, 2, 64, 64, sliding_window_size=9, logit_cap=20.0)
    q, k, v = randn(24, 4, 64, seed=1), randn(24, 2, 64, seed=2), randn(24, 2, 64, seed=3)
    got = []
    cuts = [0, 7, 19, 23, 24]
    for start, end in itertools.pairwise(cuts):
        mode = ForwardMode.DECODE if end - start == 1 else ForwardMode.EXTEND
        part = slice(start, end)
        got.append(
            step(backend, model, mode, [start], [end - start], q[part], k[part], v[part], at, sinks=sinks)
        )
    rule = Rule(64**-0.5, 20.0, 9, True, sinks)
    value, bound = attention(q, k, v, rule, 0, BF16)
    outcome = compare("out", torch.cat(got).view(24, 4, 64), value, bound)
    assert outcome.good, outcome


@pytest.mark.parametrize("scales", [(torch.tensor([0.5]), torch.tensor([0.25])), (0.5, 0.25)])
def test_a_prompt_gives_the_same_however_it_is_cut_on_an_8_bit_cache(scales: tuple[Any, Any]) -> None:
    """With scales of a checkpoint, and of a file, which SGLang hands over as numbers."""
    at = layer(2, 1, 64, 64, k_scale=scales[0], v_scale=scales[1])
    q, k, v = randn(16, 2, 64, seed=1), randn(16, 1, 64, seed=2), randn(16, 1, 64, seed=3)
    answers = []
    for cuts in ([0, 16], [0, 6, 16]):
        model = runner(MHATokenToKVPool(64, PAGE, torch.float8_e4m3fn, 1, 64, 1, "cpu", False), 1)
        backend = Backend(model)
        parts = [
            step(backend, model, ForwardMode.EXTEND, [a], [b - a], q[a:b], k[a:b], v[a:b], at)
            for a, b in itertools.pairwise(cuts)
        ]
        answers.append(torch.cat(parts))
    assert torch.equal(*answers)
    scale = torch.tensor(0.5), torch.tensor(0.25)
    stored = [(x / s).to(torch.float8_e4m3fn).double() for x, s in zip((k, v), scale, strict=True)]
    value, bound = attention(q, *stored, Rule(64**-0.5, k_scale=0.5, v_scale=0.25), 0, BF16)
    outcome = compare("out", answers[0].view(16, 2, 64), value, bound)
    assert outcome.good, outcome


def test_absorbed_mla_and_its_form_with_heads() -> None:
    pool = MLATokenToKVPool(128, PAGE, BF16, 128, 64, 1, "cpu", False)
    model = runner(pool, 2)
    backend = Backend(model)
    absorbed = layer(16, 1, 192, 128)
    q, rows = randn(9, 16, 192, seed=1), randn(9, 1, 192, seed=2)
    got = step(backend, model, ForwardMode.EXTEND, [0, 0], [5, 4], q, rows, rows[..., :128], absorbed)
    for part, n in ((slice(0, 5), 5), (slice(5, 9), 4)):
        value, bound = attention(q[part], rows[part], rows[part][..., :128], Rule(192**-0.5), 0, BF16)
        outcome = compare("extend", got[part].view(n, 16, 128), value, bound)
        assert outcome.good, outcome
    # A host may hand over both parts of a query and of a key.
    q1, r1 = randn(2, 16, 192, seed=3), randn(2, 1, 192, seed=4)
    one = batch(model, ForwardMode.DECODE, [5, 4], [1, 1])
    backend.init_forward_metadata(one)
    got = backend.forward_decode(
        q1[..., :128].flatten(1),
        r1[..., :128],
        r1[..., :128],
        absorbed,
        one,
        q_rope=q1[..., 128:],
        k_rope=r1[..., 128:],
    )
    whole = torch.cat((rows[:5], r1[:1]))
    value, bound = attention(q1[:1], whole, whole[..., :128], Rule(192**-0.5), 5, BF16)
    assert compare("decode", got[:1].view(1, 16, 128), value, bound).good
    # A prompt without a prefix may attend with heads of its own, whose keys are not cached.
    heads = layer(2, 2, 96, 64)
    q, k, v = randn(6, 2, 96, seed=5), randn(6, 2, 96, seed=6), randn(6, 2, 64, seed=7)
    got = step(backend, model, ForwardMode.EXTEND, [0], [6], q, k, v, heads, save_kv_cache=False)
    value, bound = attention(q, k, v, Rule(96**-0.5), 0, BF16)
    assert compare("heads", got.view(6, 2, 64), value, bound).good
    with pytest.raises(PlatformError, match="cached prefix that is latent"):
        step(backend, model, ForwardMode.EXTEND, [3], [6], q, k, v, heads, save_kv_cache=False)


def test_sparse_attention_selects_and_attends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain DSA rows of 128 + 64 values, index keys of 128: 6 of up to 20 tokens."""
    pool = DSATokenToKVPool(
        size=64, page_size=PAGE, dtype=BF16, kv_lora_rank=128, qk_rope_head_dim=64, layer_num=1, device="cpu",
        index_head_dim=128, enable_memory_saver=False, kv_cache_dim=192,
    )  # fmt: skip
    model = runner(pool, 2, context=32)
    backend = Backend(model)
    at = layer(16, 1, 192, 128)
    table = model.req_to_token_pool.req_to_token
    keys = randn(2, 20, 1, 192, seed=1)
    index = randn(2, 20, 128, seed=2).float().clamp(-400, 400).to(torch.float8_e4m3fn)
    scale = torch.rand(2, 20, generator=torch.Generator().manual_seed(3)) + 0.1
    lengths = [20, 3]
    for b, n in enumerate(lengths):
        slots = table[b + 1, :n].long()
        pool.set_kv_buffer(at, slots, keys[b, :n], None)
        pool.set_index_k_scale_buffer(0, slots, index[b, :n], scale[b, :n])
    one = batch(model, ForwardMode.DECODE, [19, 2], [1, 1])
    backend.init_forward_metadata(one)
    q_index, weights = randn(2, 8, 128, seed=4), torch.rand(2, 8, generator=torch.Generator().manual_seed(5))
    chosen = backend.select_tokens(q_index, weights, at, one, topk=6)
    with monkeypatch.context() as few:
        few.setattr(attention_shapes, "_MOST_LOGITS", 1)  # a chunk for each token
        assert torch.equal(chosen, backend.select_tokens(q_index, weights, at, one, topk=6))
    q = randn(2, 16, 192, seed=6)
    got = backend.forward_decode(q.flatten(1), None, None, at, one, topk_indices=chosen)
    for b, n in enumerate(lengths):
        logits = (torch.einsum("hd,sd->hs", q_index[b].double(), index[b, :n].double()).clamp(min=0)
                  * weights[b].double()[:, None]).sum(0) * scale[b, :n].double()  # fmt: skip
        best = sorted(logits.topk(min(6, n)).indices.tolist())
        assert chosen[b].tolist() == [*table[b + 1][best].tolist(), *[-1] * (6 - len(best))]
        rows = keys[b][best]
        value, bound = attention(q[b : b + 1], rows, rows[..., :128], Rule(192**-0.5), len(best) - 1, BF16)
        outcome = compare("sparse", got[b : b + 1].view(1, 16, 128), value, bound)
        assert outcome.good, outcome


def test_a_graphs_grid_does_not_depend_on_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = importlib.import_module(f"{PACKAGE}.kernels.decode")

    launches = []
    real = decode.decode_kernel

    class Recorded:
        def __getitem__(self, grid: Any) -> Any:
            launches.append(grid)
            return real[grid]

    monkeypatch.setitem(decode.paged_decode.keywords, "decode_kernel", Recorded())
    model = runner(MHATokenToKVPool(4096, PAGE, BF16, 1, 32, 1, "cpu", False), 1, context=2048)
    backend = Backend(model)
    at = layer(2, 1, 32, 32)
    q, k, v = randn(1, 2, 32, seed=1), randn(1, 1, 32, seed=2), randn(1, 1, 32, seed=3)
    for length in (1, 60):
        one = batch(model, ForwardMode.DECODE, [length - 1], [1])
        backend.init_forward_metadata_out_graph(one, in_capture=True)
        backend.forward(q.flatten(1), k.flatten(1), v.flatten(1), at, one)
    assert launches[0] == launches[1]
    assert launches[0][0] > 1


def test_what_is_not_served_is_refused() -> None:
    pool = MHATokenToKVPool(64, PAGE, BF16, 1, 32, 1, "cpu", False)
    backend = Backend(runner(pool, 1))
    mode = SimpleNamespace(is_decode=lambda: False, is_idle=lambda: False, is_target_verify=lambda: False)
    untold = SimpleNamespace(forward_mode=mode, extend_seq_lens=None)  # a draft extend without its lengths
    with pytest.raises(PlatformError, match="speculative"):
        backend.init_forward_metadata_out_graph(untold)
    windows = type("Windows", (Backend,), {"_window_layers": lambda self: {0: (0, True)}})
    with pytest.raises(PlatformError, match="disable-hybrid-swa-memory"):
        windows(runner(pool, 1))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"is_cross_attention": True}, "is_cross_attention"),
        ({"use_irope": True}, "use_irope"),
        ({"pos_encoding_mode": "ALIBI"}, "pos_encoding_mode=ALIBI"),
        ({"xai_temperature_len": 1024}, "xai_temperature_len=1024"),
        ({"logit_cap": 30.0, "logit_capping_method": "sigmoid"}, "logit_capping_method=sigmoid"),
        ("mha_return_lse", "mha_return_lse"),
        ("return_lse", "return_lse"),
        ("hnd", r"cannot read a KV cache whose layers have the shape \(17, 1, 4, 32\)"),
    ],
)
@pytest.mark.parametrize("mode", [ForwardMode.DECODE, ForwardMode.EXTEND])
def test_what_a_layer_asks_for_and_no_kernel_computes_is_refused_by_name(
    mode: ForwardMode, asked: Any, named: str
) -> None:
    """Each of these was once left out in silence, with other numbers or reads out of bounds."""
    pool = MHATokenToKVPool(64, PAGE, BF16, 1, 32, 1, "cpu", False)
    model = runner(pool, 1)
    backend = Backend(model)
    at = layer(2, 1, 32, 32, **(asked if isinstance(asked, dict) else {}))
    one = batch(model, mode, [3], [1])
    backend.init_forward_metadata(one)
    q, k, v = randn(1, 2, 32, seed=1), randn(1, 1, 32, seed=2), randn(1, 1, 32, seed=3)
    arguments = (q.flatten(1), k.flatten(1), v.flatten(1), at, one)
    options = {"return_lse": True} if asked == "return_lse" else {}
    one.mha_return_lse = asked == "mha_return_lse"
    stored = asked != "hnd"
    if not stored:  # [pages, heads, page, head_dim], as SGLang lays it out with SGLANG_USE_HND_KVCACHE
        pool.k_buffer[0] = pool.k_buffer[0].view(17, PAGE, 1, 32).transpose(1, 2)
        pool.v_buffer[0] = pool.v_buffer[0].view(17, PAGE, 1, 32).transpose(1, 2)
    with pytest.raises(PlatformError, match=named):
        backend.forward(*arguments, save_kv_cache=stored, **options)


def test_an_argument_that_no_kernel_takes_is_refused_by_name() -> None:
    pool = MHATokenToKVPool(64, PAGE, BF16, 1, 32, 1, "cpu", False)
    model = runner(pool, 1)
    backend, at = Backend(model), layer(2, 1, 32, 32)
    one = batch(model, ForwardMode.DECODE, [3], [1])
    backend.init_forward_metadata(one)
    q, k, v = randn(1, 2, 32, seed=1), randn(1, 1, 32, seed=2), randn(1, 1, 32, seed=3)
    arguments = (q.flatten(1), k.flatten(1), v.flatten(1), at, one)
    with pytest.raises(PlatformError, match="does not serve what this model asks of attention: rel_bias"):
        backend.forward(*arguments, rel_bias=q)
    backend.forward(*arguments, rel_bias=None, return_lse=False)


def test_a_tree_of_drafts_gives_what_each_of_its_branches_gives() -> None:
    """Node 0 has the children 1 and 2: each of them sees the prefix, node 0 and itself."""
    at = layer(4, 2, 64, 64)
    q, k, v = randn(9, 4, 64, seed=1), randn(9, 2, 64, seed=2), randn(9, 2, 64, seed=3)
    mask = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)

    def prefilled() -> tuple[Any, Any]:
        model = runner(MHATokenToKVPool(64, PAGE, BF16, 2, 64, 1, "cpu", False), 1)
        backend = Backend(model)
        step(backend, model, ForwardMode.EXTEND, [0], [6], q[:6], k[:6], v[:6], at)
        return backend, model

    for drafts in (Drafts(3, mask.flatten()), Drafts(3, topk=1)):
        backend, model = prefilled()
        one = batch(model, ForwardMode.TARGET_VERIFY, [6], [3])
        one.seq_lens = one.seq_lens_cpu = torch.tensor([6])
        one.extend_seq_lens = one.extend_prefix_lens = None
        one.spec_info = drafts
        backend.init_forward_metadata(one)
        got = backend.forward(q[6:].flatten(1), k[6:].flatten(1), v[6:].flatten(1), at, one)
        for branch in ([6, 7], [6, 8]) if drafts.custom_mask is not None else ([6, 7, 8],):
            backend, model = prefilled()
            wanted = step(
                backend, model, ForwardMode.EXTEND, [6], [len(branch)], q[branch], k[branch], v[branch], at
            )
            torch.testing.assert_close(got[[row - 6 for row in branch]], wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.host
@pytest.mark.parametrize("kind", ["mha", "mla"])
@pytest.mark.parametrize(
    "told", ["lengths on the CPU", "lengths on the device only", "a graph's padded batch"]
)
def test_a_draft_model_is_given_the_verified_tokens(told: str, kind: str) -> None:
    """SGLang's draft extend, in SGLang's own words for the mode: 3 tokens behind 6, and behind 2, as an extend has it.

    A graph's batch is padded with rows of length 1 that nevertheless bring 3 tokens, all at the padding slot.
    """
    modes = pytest.importorskip(
        "sglang.srt.model_executor.forward_batch_info", reason="SGLang names the mode"
    )
    prefix, new = [6, 2], [3, 3]
    at = layer(4, 2, 64, 64) if kind == "mha" else layer(16, 1, 192, 128)
    heads, kv, dim = at.tp_q_head_num, at.tp_k_head_num, at.qk_head_dim
    q, k = randn(14, heads, dim, seed=1), randn(14, kv, dim, seed=2)
    v = randn(14, kv, dim, seed=3) if kind == "mha" else k[..., :128]
    past = slice(0, 8)

    def prefilled() -> tuple[Any, Any]:
        if kind == "mha":
            pool: Any = MHATokenToKVPool(64, PAGE, BF16, 2, 64, 1, "cpu", False)
        else:
            pool = MLATokenToKVPool(64, PAGE, BF16, 128, 64, 1, "cpu", False)
        model = runner(pool, 2, context=32)
        backend = Backend(model)
        step(backend, model, ForwardMode.EXTEND, [0, 0], prefix, q[past], k[past], v[past], at)
        return backend, model

    backend, model = prefilled()
    wanted = step(backend, model, ForwardMode.EXTEND, prefix, new, q[8:], k[8:], v[8:], at)
    backend, model = prefilled()
    one = batch(model, modes.ForwardMode.DRAFT_EXTEND_V2, prefix, new)  # type: ignore[arg-type]
    rows = [q[8:], k[8:], v[8:]]
    one.extend_prefix_lens = None if told == "a graph's padded batch" else one.extend_prefix_lens
    if told != "lengths on the CPU":
        one.extend_prefix_lens_cpu = one.seq_lens_cpu = None
    if told == "a graph's padded batch":
        one.batch_size = 3
        one.req_pool_indices = torch.tensor([1, 2, 0])
        one.seq_lens = torch.tensor([9, 5, 1])
        one.extend_seq_lens = torch.tensor([3, 3, 3], dtype=torch.int32)
        one.extend_seq_lens_cpu = [3, 3, 3]
        one.out_cache_loc = torch.cat((one.out_cache_loc, torch.zeros(3, dtype=torch.int64)))
        rows = [torch.cat((x, x[:3])) for x in rows]
    backend.init_forward_metadata(one)
    got = backend.forward(*(x.flatten(1) for x in rows), at, one)
    torch.testing.assert_close(got[:6], wanted, atol=0, rtol=0)
    assert got.isfinite().all()
