"""Calls of the device's own kernels: right ones, with no, one or more arguments spoilt."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from recipes import FLOATS, Call, Many, Plain, Tensor, hostile

Arguments = list[Any]
SLOT_COUNT = 17


def _tensor(draw: random.Random, dtype: torch.dtype, *shape: int, layout: str = "plain") -> Tensor:
    return Tensor(shape, dtype, layout=layout, seed=draw.getrandbits(30))


def _integers(
    values: list[int], dtype: torch.dtype = torch.int64, shape: tuple[int, ...] | None = None
) -> Tensor:
    return Tensor(shape or (len(values),), dtype, data=tuple(values))


def _attention(draw: random.Random, extend: bool) -> Arguments:
    dtype = draw.choice(FLOATS[:3])
    cache = draw.choice([dtype, dtype, torch.float8_e4m3fn])
    requests, kv_heads, size = draw.randrange(4), draw.choice([1, 2]), draw.choice([1, 8, 16, 33, 64])
    heads, v_size = kv_heads * draw.choice([0, 1, 2, 4]), draw.choice([size, 8, 24])
    positions = draw.choice([8, 12])
    lens = [draw.randrange(positions + 1) for _ in range(requests)]
    new = [draw.randint(0, n) for n in lens]
    tokens = sum(new) if extend else requests
    table = [draw.randrange(SLOT_COUNT) for _ in range(5 * positions)]
    batch = [
        _tensor(draw, dtype, tokens, heads, size),
        _tensor(draw, cache, SLOT_COUNT, kv_heads, size),
        _tensor(draw, cache, SLOT_COUNT, kv_heads, v_size),
        _integers(table, torch.int32, (5, positions)),
        _integers([draw.randrange(5) for _ in range(requests)], draw.choice([torch.int32, torch.int64])),
        _integers(lens),
    ]
    if extend:
        batch += [_integers([n - m for n, m in zip(lens, new, strict=True)]), _integers(new)]
    batch += [
        _tensor(draw, dtype, tokens, heads, v_size),
        Plain(draw.choice([0.125, 1.0])),
        Plain(draw.choice([0.0, 30.0])),
        Plain(draw.choice([-1, 0, 3])),
    ]
    if extend:
        batch.append(Plain(draw.random() < 0.7))
    batch.append(draw.choice([Plain(None), _tensor(draw, torch.float32, heads)]))
    slot_map = _integers([draw.randrange(SLOT_COUNT) for _ in range(SLOT_COUNT)])
    return [*batch, draw.choice([Plain(None), slot_map])]


def _store(draw: random.Random) -> Arguments:
    dtype = draw.choice([*FLOATS[:3], torch.float8_e4m3fn])
    tokens, heads, size, v_size = draw.randrange(9), draw.choice([1, 2]), draw.choice([1, 8, 33]), 16
    slots = draw.sample(range(SLOT_COUNT), tokens)
    return [
        _tensor(draw, dtype, tokens, heads, size),
        _tensor(draw, dtype, tokens, heads, v_size),
        _tensor(draw, dtype, SLOT_COUNT, heads, size),
        _tensor(draw, dtype, SLOT_COUNT, heads, v_size),
        _integers(slots, draw.choice([torch.int32, torch.int64])),
    ]


def _norm(draw: random.Random, adds: bool) -> Arguments:
    dtype, size = draw.choice(FLOATS[:3]), draw.choice([1, 8, 33, 256])
    shape = (draw.randrange(5), size) if adds or draw.random() < 0.6 else (draw.randrange(4), 3, size)
    weight = _tensor(draw, draw.choice([dtype, torch.float32]), size)
    x, other = _tensor(draw, dtype, *shape), _tensor(draw, dtype, *shape)
    return [x, other, weight, Plain(1e-6)] if adds else [x, weight, Plain(1e-6), other]


def _activation(draw: random.Random) -> Arguments:
    dtype, tokens, size = draw.choice(FLOATS[:3]), draw.randrange(5), draw.choice([1, 8, 33, 500])
    return [_tensor(draw, dtype, tokens, 2 * size), _tensor(draw, dtype, tokens, size)]


def _linear(draw: random.Random) -> Arguments:
    dtype, m, n, k = (
        draw.choice(FLOATS[:3]),
        draw.choice([0, 1, 3, 9]),
        draw.choice([1, 5, 64]),
        draw.choice([1, 7, 96]),
    )
    bias = draw.choice([Plain(None), _tensor(draw, dtype, n)])
    return [_tensor(draw, dtype, m, k), _tensor(draw, dtype, n, k), bias, _tensor(draw, dtype, m, n)]


def _rotary(draw: random.Random) -> Arguments:
    dtype, tokens, size, heads = (
        draw.choice(FLOATS[:3]),
        draw.randrange(5),
        draw.choice([2, 8, 64]),
        draw.choice([1, 3]),
    )
    shape = (tokens, heads, size) if draw.random() < 0.5 else (tokens, heads * size)
    return [
        _integers([draw.randrange(20) for _ in range(tokens)]),
        _tensor(draw, dtype, *shape),
        _tensor(draw, dtype, *shape),
        Plain(size),
        _tensor(draw, draw.choice([torch.float32, dtype]), 20, draw.choice([size, 2])),
        Plain(draw.random() < 0.5),
    ]


def _convolution(draw: random.Random) -> Arguments:
    dtype, channels, width = draw.choice(FLOATS[:3]), draw.choice([1, 8, 40]), draw.choice([1, 3, 4])
    requests = draw.randrange(4)
    lens = [draw.randrange(5) for _ in range(requests)]
    starts = [sum(lens[:r]) for r in range(requests + 1)]
    steps = draw.random() < 0.4
    tokens = requests if steps else starts[-1]
    return [
        _tensor(draw, dtype, tokens, channels),
        _tensor(draw, dtype, channels, width),
        draw.choice([Plain(None), _tensor(draw, dtype, channels)]),
        Plain(None) if steps else _integers(starts, draw.choice([torch.int32, torch.int64])),
        _integers(draw.sample(range(6), requests)),
        draw.choice([Plain(None), Tensor((requests,), torch.bool, seed=draw.getrandbits(30))]),
        _tensor(draw, draw.choice([dtype, torch.float32]), 6, channels, width + draw.choice([-1, 0])),
        _tensor(draw, dtype, tokens, channels),
        Plain(draw.random() < 0.5),
    ]


def _experts(draw: random.Random) -> Arguments:
    dtype, tokens, hidden, inner = (
        draw.choice(FLOATS[:3]),
        draw.randrange(6),
        draw.choice([8, 33]),
        draw.choice([1, 16]),
    )
    experts, k = draw.choice([1, 4]), draw.choice([1, 2])
    return [
        _tensor(draw, dtype, tokens, hidden),
        _tensor(draw, dtype, experts, 2 * inner, hidden),
        _tensor(draw, dtype, experts, hidden, inner),
        _tensor(draw, torch.float32, tokens, k),
        _integers([draw.randrange(-1, experts) for _ in range(tokens * k)], shape=(tokens, k)),
        _tensor(draw, dtype, tokens, hidden),
        Plain(draw.random() < 0.3),
    ]


def _collective(draw: random.Random) -> Arguments:
    kinds = ["all_reduce", "broadcast", "all_gather", "send", "recv", "reduce_scatter", "no such"]
    some = Many((_tensor(draw, torch.float32, 4),))
    return [Plain(draw.choice(kinds)), Plain("no such group"), some, draw.choice([some, Many(())]), Plain(0)]


KERNELS: dict[str, Callable[[random.Random], Arguments]] = {
    f"sglang_example_oot::{name}": arguments
    for name, arguments in {
        "paged_decode": lambda draw: _attention(draw, extend=False),
        "paged_extend": lambda draw: _attention(draw, extend=True),
        "store_kv": _store,
        "rms_norm": lambda draw: _norm(draw, adds=False),
        "fused_add_rms_norm": lambda draw: _norm(draw, adds=True),
        "silu_and_mul": _activation,
        "linear": _linear,
        "rotary_embedding": _rotary,
        "short_conv": _convolution,
        "moe_experts": _experts,
        "collective": _collective,
    }.items()
}


def draw_call(draw: random.Random, names: list[str]) -> Call:
    """One call, right (a quarter of them) or spoilt."""
    name = draw.choice(names)
    arguments = KERNELS[name](draw)
    shared = False
    for _ in range(draw.choice([0, 1, 1, 2])):
        at = draw.randrange(len(arguments))
        arguments[at] = hostile(draw, arguments[at], at)
        shared = shared or not isinstance(arguments[at], (Tensor, Plain, Many))
    # Where a kernel writes what it reads, the order in which its threads come decides.
    return Call(name, arguments, compare=not shared)
