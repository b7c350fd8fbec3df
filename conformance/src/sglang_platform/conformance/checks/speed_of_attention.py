"""Level 4: the time that attention takes, beside the same in torch, and how it grows with context, batch and tokens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from sglang_platform.conformance.check import check
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import (
    compute_dtypes,
    decode_cases,
    edge_cases,
    eight_bit_dtypes,
)
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.fixtures.timing import Work, expect_growth, expect_ratio
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SERVED = (attention_backend(), kv_pool())
_BATCHES = (2, 8, 32)
_LONG_BATCHES = (1, 16)
_NEW = (64, 256, 512)
_SLACK = 6.0
_TORCH = 100.0
_BY_TOKEN = 10.0
"""Of a prefill beside torch, where what a call costs of itself is counted on both sides. One query after the other is
some twenty times and more."""
_LARGE_POOL = 16384
_LARGE_TABLE = (256, 131072)
_LONG = (512, 4096)
_SHORT = 63
_LENGTHS = 160
_KNOWN = 40
"""Steps at lengths of their own before any is timed."""

_NEW_LENGTH = 8.0
_PADDED = 3.0
"""Where all are read as the longest it is some forty times."""


@dataclass(frozen=True)
class TimedAttention:
    """`contexts`: tokens of a request, smallest first."""

    kind: str
    heads: tuple[int, int]
    dims: tuple[int, int]
    contexts: tuple[int, ...]


def timed_attention(subject: Subject, rng: random.Random) -> Iterator[TimedAttention]:
    """One shape of each kind of pool that attention is declared for, large enough that its arithmetic shows."""
    shapes = {(case.kind, case.heads) for case in edge_cases(subject, rng)} | {
        (case.kind, case.heads) for case in decode_cases(subject, rng)
    }
    if any(kind == "mha" for kind, _ in shapes):
        heads = max((heads for kind, heads in shapes if kind == "mha"), key=lambda one: (one[1], one[0]))
        yield TimedAttention("mha", heads, (64, 64), (64, 512, 2048))
    if any(kind == "mla" for kind, _ in shapes):
        yield TimedAttention("mla", (16, 1), (512, 64), (64, 256, 1024))


class TimedStep:
    """A step of requests (cached tokens, new tokens), ready to be run again and again."""

    def __init__(
        self,
        subject: Subject,
        case: TimedAttention,
        mode: Literal["decode", "extend"],
        requests: tuple[tuple[int, int], ...],
        dtype: str | None = None,
        *,
        kv_dtype: str | None = None,
        table: tuple[int, int] | None = None,
    ) -> None:
        """`table`: rows and columns of the request table, where it is larger than the requests need."""
        page = max(subject.declares.page_sizes)
        dtype = dtype or compute_dtypes(subject)[0]
        wanted = AttentionCase(
            mode, requests, case.heads, case.dims, page, dtype, kind=case.kind, kv_dtype=kv_dtype, table=table
        )
        self.step = AttentionStep(subject, wanted)

    def work(self) -> Work:
        """Metadata and attention of the batch, as one layer of a step has them."""
        return forward_of(self.step)


def forward_of(step: AttentionStep, *, new_memory: bool = False) -> Work:
    q, k, v = step.handed()
    backend, batch, layer = step.backend, step.batch, step.layer

    def run() -> None:
        backend.init_forward_metadata(batch)
        backend.forward(q, k, v, layer, batch)

    return Work(run, new_memory=new_memory)


def _torchs(step: AttentionStep) -> Callable[[], Any]:
    """The same arithmetic without a cache: two products of matrices for each request."""
    device, scale = step.subject.device, step.scale
    kv_heads = step.case.heads[1]

    def grouped(rows: torch.Tensor, heads: int) -> torch.Tensor:
        """[n, heads * groups, d] -> [heads, n * groups, d], so that a group reads its key head once."""
        n, _, dim = rows.shape
        return rows.reshape(n, heads, -1, dim).transpose(0, 1).reshape(heads, -1, dim).to(device).contiguous()

    parts = [
        (grouped(q, kv_heads), grouped(k, kv_heads).transpose(1, 2), grouped(v, kv_heads))
        for q, k, v in zip(step.q, step.k, step.v, strict=True)
    ]

    def run() -> None:
        for query, keys, values in parts:
            scores = torch.matmul(query.float(), keys.float()) * scale
            torch.matmul(torch.softmax(scores, dim=-1), values.float())

    return run


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=timed_attention,
    seconds=300,
    fix="read each cached token of the batch once, and no other: not the whole pool, and of the table neither the"
    " whole row nor the other rows",
)
def decode_time_grows_with_the_context(subject: Subject, case: TimedAttention) -> None:
    """A decode step over 32 times the tokens takes about 32 times as long, or less, and over 32 requests 16 times as
    long as over 2, long ones too; a short request takes as long in a large pool, of 8 bits too, and with a large
    request table as in small ones, and short ones take as long beside a long one as without it."""

    def over(context: int) -> Work:
        return TimedStep(subject, case, "decode", ((context - 1, 1),) * 2).work()

    def of(batch: int) -> Work:
        return TimedStep(subject, case, "decode", ((63, 1),) * batch).work()

    what = f"a decode step ({case.kind})"
    expect_growth(
        subject, case.contexts, over, slack=_SLACK, what=f"{what} of 2 requests", of="tokens of context"
    )
    if subject.thorough:  # where cached tokens take most of the time, what grows with their square shows
        expect_growth(
            subject, _LONG, over, slack=_SLACK / 1.5, what=f"{what} of 2 requests", of="tokens of context"
        )
    expect_growth(subject, _BATCHES, of, slack=_SLACK, what=f"{what} over 64 tokens", of="requests")
    longest = case.contexts[-1]
    expect_growth(
        subject,
        _LONG_BATCHES,
        lambda batch: forward_of(
            TimedStep(subject, case, "decode", ((longest - 1, 1),) * batch).step, new_memory=True
        ),
        slack=_SLACK / 2,  # there is enough work to tell
        what=f"{what} over {longest} tokens",
        of="requests",
        fix="read for each request its own tokens, and not those of the batch",
    )
    _expect_no_padding(subject, case, what)
    dtypes = compute_dtypes(subject)
    types = [(dtype, None) for dtype in dict.fromkeys((dtypes[0], dtypes[-1]))]
    types += [(dtypes[-1], name) for name in eight_bit_dtypes(subject)[:1]]
    for dtype, kv_dtype in types:  # what widens all of the cache shows in the narrowest
        alone = TimedStep(subject, case, "decode", ((63, 1),), dtype, kv_dtype=kv_dtype).step
        requests = ((_LARGE_POOL - 1, 1), (63, 1))
        among = TimedStep(
            subject, case, "decode", requests, dtype, kv_dtype=kv_dtype, table=_LARGE_TABLE
        ).step
        expect_ratio(
            subject,
            forward_of(among.following("decode", [1], 1.0), new_memory=True),
            forward_of(alone, new_memory=True),
            most=_SLACK,
            what=f"{what} over 64 tokens in {kv_dtype or dtype}, in a pool of {_LARGE_POOL + 64} slots and with a"
            f" request table of {_LARGE_TABLE[0]} rows of {_LARGE_TABLE[1]},",
            beside="in a pool and with a table that are just large enough",
        )


def _expect_no_padding(subject: Subject, case: TimedAttention, what: str) -> None:
    """A decode of one long request and many short ones does not read them all as if they were long."""
    long = ((case.contexts[-1] * 2 - 1, 1),)
    short = ((7, 1),) * _SHORT
    together = TimedStep(subject, case, "decode", long + short)
    alone, few = TimedStep(subject, case, "decode", long), TimedStep(subject, case, "decode", short)
    parts = alone.work().run, few.work().run
    expect_ratio(
        subject,
        Work(together.work().run, new_memory=True),  # it takes as much on both sides
        Work(lambda: [run() for run in parts], new_memory=True),
        most=_PADDED,
        what=f"{what} of one request of {long[0][0] + 1} tokens and {_SHORT} of 8",
        beside="the long one and the short ones, one batch after the other",
        fix="read of each request the tokens that it has: its own length bounds the loop over its keys, not the longest"
        " of the batch",
    )


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=timed_attention,
    seconds=300,
    fix="gather the prefix once for all new tokens of a request, and attend in blocks, not token by token",
)
def extend_time_grows_with_the_tokens(subject: Subject, case: TimedAttention) -> None:
    """A prefill of 512 tokens takes no more than 64 times as long as of 64 (each sees all before it); 16 new tokens
    against 32 times the prefix take 32 times as long, or less."""

    def of(new: int) -> Work:
        return TimedStep(subject, case, "extend", ((0, new),)).work()

    def against(prefix: int) -> Work:
        return TimedStep(subject, case, "extend", ((prefix, 16),)).work()

    what = f"a prefill ({case.kind})"
    expect_growth(subject, _NEW, of, slack=_SLACK / 2, power=2, what=what, of="new tokens")
    expect_growth(
        subject, case.contexts, against, slack=_SLACK, what=f"{what} of 16 tokens", of="tokens of prefix"
    )


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=timed_attention,
    seconds=300,
    fix="plan, tune and compile for ranges of lengths, not for each: a decode has another length at each step, and each"
    " prompt its own",
)
def new_lengths_take_no_longer(subject: Subject, case: TimedAttention) -> None:
    """A decode step at a context that no step had before, and a prefill of as many tokens as none had, do not take
    eight times as long as the same again; what a device does once for all lengths, or for some, may."""
    for mode in ("decode", "extend"):
        _expect_no_plans(subject, case, mode)


def _expect_no_plans(subject: Subject, case: TimedAttention, mode: Literal["decode", "extend"]) -> None:
    timed = TimedStep(subject, case, mode, ((0, _LENGTHS), (0, 8))).step
    lengths = iter(range(9, _LENGTHS))
    latest: list[Work] = []

    def longer() -> None:
        latest[:] = [forward_of(_shortened(timed, mode, next(lengths)))]

    def once() -> None:
        latest[0].run()

    for _ in range(_KNOWN):
        longer()
        once()
    expect_ratio(
        subject,
        Work(once, longer),
        Work(once),
        most=_NEW_LENGTH,
        what=f"{mode} ({case.kind}) at a length that is new",
        beside="at one that was seen before",
    )


def _shortened(step: AttentionStep, mode: Literal["decode", "extend"], length: int) -> AttentionStep:
    """Its first request with so many of its tokens, on the same backend."""
    first = step.following(mode, [0], 1.0)
    first.k, first.v, first.slots = [first.k[0][:length]], [first.v[0][:length]], [first.slots[0][:length]]
    return first.following(mode, [0], 1.0)


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=timed_attention,
    seconds=300,
    fix="compute with the device's matrix operations or compiled kernels, over all heads and tokens at once",
)
def attention_is_not_slower_than_torch(subject: Subject, case: TimedAttention) -> None:
    """Decode steps and prefills do not take 100 times as long as the same products of matrices in plain torch, not even
    a decode step of one short request; nor a prefill of 512 tokens ten times as long as they and one of two tokens."""
    few, some = case.contexts[0] - 1, case.contexts[-1] // 2 - 1
    steps: tuple[tuple[Literal["decode", "extend"], tuple[tuple[int, int], ...]], ...] = (
        ("decode", ((few, 1),)),
        ("decode", ((some, 1),) * 4),
        ("extend", ((some, 128), (0, 128))),
    )
    for mode, requests in steps:
        timed = TimedStep(subject, case, mode, requests)
        expect_ratio(
            subject,
            timed.work(),
            Work(_torchs(timed.step)),
            most=_TORCH,
            what=f"{mode} ({case.kind}) of requests of {requests} cached and new tokens",
            beside="matrix products of torch without a cache",
        )
    prefill, shortest = (TimedStep(subject, case, "extend", ((0, new),)) for new in (512, 2))
    products, call = _torchs(prefill.step), shortest.work().run
    expect_ratio(
        subject,
        prefill.work(),
        Work(lambda: (products(), call())),
        most=_BY_TOKEN,
        what=f"a prefill ({case.kind}) of 512 tokens",
        beside="its matrix products in torch and a prefill of 2 tokens",
        fix="attend in blocks of queries, not query by query",
    )
