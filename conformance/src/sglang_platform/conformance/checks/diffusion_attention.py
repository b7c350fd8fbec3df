"""Attention of the diffusion runtime against float64, within the bound that a correct kernel keeps."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from sglang_platform.conformance import diffusion_subject
from sglang_platform.conformance.check import Blocked, NotApplicable, NotRun, check
from sglang_platform.conformance.diffusion_subject import diffusion
from sglang_platform.conformance.fixtures.op_calls import judge, only_lent
from sglang_platform.conformance.fixtures.timing import Work, expect_ratio
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.attention import AttentionRule, Expected, attention
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.attention.diffusion import DiffusionAttention
from sglang_platform.core.errors import PlatformError

_FIX = (
    "compute softmax(softmax_scale * Q K^T) V for each batch row and head, with the given scale, in float32 inside;"
    " where causal, query i sees keys 0 to i + Sk - Sq"
)


@dataclass(frozen=True)
class DiffusionCase:
    queries: int
    keys: int
    heads: int
    kv_heads: int
    head_size: int
    batch: int = 1
    causal: bool = False
    dtype: str = "float32"
    strided: bool = False
    one_prompt: bool = False
    """All rows of the batch have the same keys and values, which are in memory once."""
    common: float = 0.0
    """What all numbers of queries and keys have in common, as models with biases have it: products of float16 are past
    its range, and differ by as little as those without."""


def _shapes(subject: Subject, rng: random.Random) -> Iterable[DiffusionCase]:
    yield DiffusionCase(1, 1, 1, 1, 32)
    yield DiffusionCase(5, 5, 2, 2, 32)
    yield DiffusionCase(33, 33, 4, 4, 64, batch=2)
    yield DiffusionCase(48, 21, 4, 4, 64)  # a picture over a short prompt
    yield DiffusionCase(1, 37, 2, 2, 32, batch=2)  # a pooled token over a picture
    yield DiffusionCase(7, 90, 4, 4, 64, batch=3)
    yield DiffusionCase(30, 11, 4, 4, 64, batch=2, one_prompt=True)
    yield DiffusionCase(10, 12, 40, 40, 64, batch=2)  # with guidance, and without
    yield DiffusionCase(40, 40, 8, 2, 64)
    yield DiffusionCase(40, 40, 6, 1, 32)
    yield DiffusionCase(29, 29, 4, 4, 64, causal=True)
    yield DiffusionCase(9, 41, 4, 2, 32, causal=True)
    yield DiffusionCase(64, 64, 2, 2, 128, strided=True)
    yield DiffusionCase(65, 65, 2, 2, 80)
    # Of a picture of 1024 by 1024 and a clip, whose tokens are some thousands, over themselves and over a prompt.
    yield DiffusionCase(70, 9000, 2, 2, 32)
    yield DiffusionCase(8300, 40, 2, 2, 32)
    yield DiffusionCase(1100, 1100, 2, 1, 32, dtype="bfloat16")
    for dtype in ("bfloat16", "float16"):
        yield DiffusionCase(70, 70, 4, 4, 64, dtype=dtype)
    yield DiffusionCase(20, 30, 2, 2, 64, dtype="float16", common=40.0)
    yield DiffusionCase(rng.randrange(150, 400), rng.randrange(150, 400), 3, 3, 96, batch=2)


_check = partial(check, level=Level.KERNELS, requires=[diffusion()], hosts=("none",))


@_check(cases=_shapes, fix=_FIX)
def diffusion_attention_agrees_with_float64(subject: Subject, case: DiffusionCase) -> None:
    """Dense attention is right for lengths, cross lengths, grouped heads, causality, head sizes, types, strides, one
    prompt for a batch, and products past the range of float16, and changes nothing of what it is lent; also in the
    steps after one with other keys, other values, or both, of the same shapes, as the next prompt has, and with fewer
    or more keys."""
    dtype = getattr(torch, case.dtype)
    query, key, value = _tensors(subject, case, dtype)
    layer = _layer(subject, case)
    device = diffusion_subject.platform(subject).get_local_torch_device()
    rng = subject.torch_rng()
    others = [torch.randn(x.shape, generator=rng).to(dtype) for x in (key, value)]
    few, many = slice(0, (case.keys + 1) // 2), [*range(case.keys), *range(min(case.keys, 9))]
    prompts = [(others[0], others[1]), (key, others[1]), (key, value), (others[0], value)]
    prompts += [(key[:, rows], value[:, rows]) for rows in (few, many) if not case.causal or rows is many]
    for keys, values in prompts:
        if case.one_prompt:
            keys, values = (x[:1].expand_as(x) for x in (keys, values))
        given = {"query": query.to(device), "key": keys.to(device), "value": values.to(device)}
        if case.one_prompt:  # which a copy to another device writes out
            given |= {name: given[name][:1].expand_as(given[name]) for name in ("key", "value")}
        with torch.inference_mode(), only_lent(**given):
            out = layer.forward(*given.values(), None).cpu()
        how = f", causal, of {keys.shape[1]} keys" if case.causal else ""
        _compare(out, query, keys, values, layer, f"the output{how},")


@_check(
    fix="attend within cu_seqlens[i] to cu_seqlens[i + 1] only; the base class does, by one forward per sequence"
)
def diffusion_packed_sequences_are_apart(subject: Subject) -> None:
    """Sequences packed one behind the other attend to themselves only, whatever stands in the others' rows, also where
    their bounds are on the device alone."""
    case = DiffusionCase(50, 50, 4, 4, 64)
    query, key, value = (x[0] for x in _tensors(subject, case, torch.float32))
    layer = _layer(subject, case)
    device = diffusion_subject.platform(subject).get_local_torch_device()
    bounds = (0, 7, 7, 30, 50)
    poisoned_key, poisoned_value = key.clone(), value.clone()
    poisoned_key[30:], poisoned_value[30:] = 1e4, float("nan")
    for keys, values, told, apart in (
        (key, value, bounds, "with cu_seqlens_host"),
        (key, value, None, "without cu_seqlens_host"),
        (poisoned_key, poisoned_value, bounds, "beside NaN in the last one"),
    ):
        with torch.inference_mode():
            out = layer.forward_varlen(
                query.to(device),
                keys.to(device),
                values.to(device),
                cu_seqlens=torch.tensor(bounds, dtype=torch.int32, device=device),
                max_seqlen=23,
                cu_seqlens_host=told,
            )
        for start, stop in ((0, 7), (7, 30), (30, 50))[: 3 if keys is key else 2]:
            parts = (x[None, start:stop] for x in (out.cpu(), query, key, value))
            _compare(*parts, layer, f"the sequence {start} to {stop}, {apart},")


_QUERIES, _KEYS = 3072, 16
_MOST = 0.3


@_check(
    seconds=120,
    fix="attend over the keys that there are: fill them up to a block of the kernel, and not to as many as the queries",
)
def diffusion_prompts_take_less_time(subject: Subject) -> None:
    """Cross attention of 3,072 queries over 16 keys takes at most three tenths of the time of the same queries over
    themselves."""
    works = []
    for keys in (_KEYS, _QUERIES):
        case = DiffusionCase(_QUERIES, keys, 2, 2, 64)
        layer, device = _layer(subject, case), diffusion_subject.platform(subject).get_local_torch_device()
        given = [x.to(device) for x in _tensors(subject, case, torch.float32)]
        works.append(Work(partial(layer.forward, *given, None), new_memory=True))
    expect_ratio(
        subject,
        *works,
        most=_MOST,
        what=f"attention of {_QUERIES} queries over {_KEYS} keys",
        beside="of the same queries over themselves",
    )


def _layer(subject: Subject, case: DiffusionCase) -> Any:
    try:
        cls = diffusion_subject.attention_class(subject, case.head_size)
    except ModuleNotFoundError as error:
        raise NotRun(f"the attention class needs SGLang here: {error}", cause="host") from error
    except PlatformError as refused:
        raise Blocked(
            "the platform could not be created: see contract.diffusion_platform_is_created"
        ) from refused
    if cls is None:
        raise NotApplicable("the host's own attention serves")
    if not issubclass(cls, DiffusionAttention):
        raise NotApplicable(
            f"{cls.__module__}.{cls.__qualname__} is written on the host's classes, not on DiffusionAttention"
        )
    scale = 0.8 * case.head_size**-0.5  # not the default, so that a layer which takes its own is seen
    return cls(
        num_heads=case.heads,
        head_size=case.head_size,
        softmax_scale=scale,
        causal=case.causal,
        num_kv_heads=case.kv_heads,
        prefix="blocks.0.attn.impl",
        is_cross_attention=case.queries != case.keys,
    )


def _tensors(subject: Subject, case: DiffusionCase, dtype: torch.dtype) -> list[torch.Tensor]:
    rng = subject.torch_rng()
    tensors = []
    for length, heads in ((case.queries, case.heads), (case.keys, case.kv_heads), (case.keys, case.kv_heads)):
        wide = 2 if case.strided else 1
        full = torch.randn(case.batch, length, heads * wide, case.head_size, generator=rng)
        full = (full + case.common * (len(tensors) < 2)).to(dtype)
        tensors.append(full[:, :, heads * (wide - 1) :])
    return tensors


def _compare(
    got: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: Any, what: str
) -> None:
    """`got` and `query` [B, Sq, H, D], within the oracle's bound."""
    rule = AttentionRule(layer.softmax_scale, causal=layer.causal)
    first = key.shape[1] - query.shape[1]
    rows = [
        attention(*each, rule, first_position=first, dtype=query.dtype)
        for each in zip(query, key, value, strict=True)
    ]
    expected = Expected(torch.stack([row.value for row in rows]), torch.stack([row.bound for row in rows]))
    judge(got, expected, what, dtype=query.dtype)
