# The oracle is written out in float64, and shares no code with the device.

import pytest
import torch
from sglang_platform.core import DiffusionAttention

from sglang_platform.example_oot.diffusion.attention import ExampleOOTDiffusionAttention


def oracle(query, key, value, scale, causal):
    query, key, value = (x.double().transpose(1, 2) for x in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.transpose(2, 3) * scale
    if causal:
        rows, columns = scores.shape[2:]
        seen = torch.arange(columns)[None] <= torch.arange(rows)[:, None] + columns - rows
        scores = scores.masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ value).transpose(1, 2)


def tensors(batch, queries, keys, heads, kv_heads, dim, dtype=torch.float32):
    generator = torch.Generator().manual_seed(queries * 1000 + keys)
    return [
        torch.randn(batch, n, h, dim, generator=generator).to(dtype)
        for n, h in ((queries, heads), (keys, kv_heads), (keys, kv_heads))
    ]


SHAPES = [
    (1, 1, 1, 1, 1, 32),
    (2, 64, 64, 4, 4, 32),
    (1, 37, 96, 4, 2, 64),
    (3, 129, 300, 6, 1, 48),
    (2, 300, 21, 4, 4, 32),  # a picture's tokens over a short prompt
    (1, 513, 513, 8, 8, 128),
]


@pytest.mark.parametrize(
    ("causal", "shape"),
    [(False, shape) for shape in SHAPES] + [(True, shape) for shape in SHAPES if shape[1] <= shape[2]],
)
def test_agrees_with_float64(shape, causal):
    batch, queries, keys, heads, kv_heads, dim = shape
    query, key, value = tensors(batch, queries, keys, heads, kv_heads, dim)
    layer = ExampleOOTDiffusionAttention(heads, dim, 0.17, causal, kv_heads)
    out = layer.forward(query, key, value, None)
    assert out.shape == query.shape
    assert (out - oracle(query, key, value, 0.17, causal)).abs().max() < 2e-5


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
def test_half_types(dtype, bound):
    query, key, value = tensors(2, 65, 65, 4, 4, 64, dtype)
    out = ExampleOOTDiffusionAttention(4, 64, 0.125).forward(query, key, value, None)
    assert out.dtype == dtype
    assert (out.double() - oracle(query, key, value, 0.125, False)).abs().max() < bound


def test_strided_input():
    packed = torch.randn(2, 40, 3 * 4, 32, generator=torch.Generator().manual_seed(0))
    query, key, value = packed.split(4, dim=2)
    out = ExampleOOTDiffusionAttention(4, 32, 0.2).forward(query, key, value, None)
    assert (out - oracle(query, key, value, 0.2, False)).abs().max() < 2e-5


def test_packed_sequences_see_only_themselves():
    query, key, value = (x[0] for x in tensors(1, 50, 50, 4, 4, 32))
    bounds = (0, 7, 7, 30, 48)
    layer = ExampleOOTDiffusionAttention(4, 32, 0.2)
    assert isinstance(layer, DiffusionAttention)
    cu_seqlens = torch.tensor(bounds, dtype=torch.int32)
    out = layer.forward_varlen(query, key, value, cu_seqlens=cu_seqlens, max_seqlen=23)
    for start, stop in ((0, 7), (7, 30), (30, 48)):
        rows = slice(start, stop)
        expected = oracle(query[None, rows], key[None, rows], value[None, rows], 0.2, False)[0]
        assert (out[rows] - expected).abs().max() < 2e-5
    assert not out[48:].any()
    again = layer.forward_varlen(
        query, key, value, cu_seqlens=cu_seqlens, max_seqlen=23, cu_seqlens_host=bounds
    )
    assert torch.equal(out, again)


def test_a_query_without_a_key_is_refused():
    query, key, value = tensors(1, 8, 4, 2, 2, 32)
    with pytest.raises(ValueError, match="8 queries over 4 keys"):
        ExampleOOTDiffusionAttention(2, 32, 0.2, causal=True).forward(query, key, value, None)
