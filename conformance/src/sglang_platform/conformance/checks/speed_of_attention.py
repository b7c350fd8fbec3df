"""Level 4: the time and the memory that attention takes, and how they grow with context, batch and tokens."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch

from sglang_platform.conformance.check import check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import (
    compute_dtypes,
    eight_bit_dtypes,
    extend,
    steps,
)
from sglang_platform.conformance.fixtures.attention_rows import SERVED
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.fixtures.largest_tensor import memory_taken
from sglang_platform.conformance.fixtures.timed_attention import (
    Requests,
    TimedAttention,
    timed_attention,
    torchs_work,
    work_of,
)
from sglang_platform.conformance.fixtures.timing import (
    Work,
    expect_growth,
    expect_like_torch,
    expect_ratio,
)
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

_SLACK = 6.0
_BY_TOKEN = 10.0
"""Of a prefill beside torch, where what a call costs of itself is counted on both sides. One query after the other is
some twenty times and more."""
_PADDED = 3.0
"""Where all are read as the longest it is some forty times."""
_SHORT = 63
_LARGE_POOL, _LARGE_TABLE = 16384, (256, 131072)
_LENGTHS = 160
_KNOWN = 40
"""Steps at lengths of their own before any is timed."""

_timed = partial(check, level=Level.KERNELS, requires=SERVED, cases=timed_attention, seconds=300)


@_timed(
    fix="read each cached token of the batch once, and no other: not the whole pool, and of the table neither the"
    " whole row nor the other rows",
)
def decode_time_grows_with_the_context(subject: Subject, case: TimedAttention) -> None:
    """A decode step over 32 times the tokens takes about 32 times as long, or less, and over 32 requests 16 times as
    long as over 2, long ones too; a short request takes as long in a large pool, of 8 bits too, and with a large
    request table as in small ones, and short ones take as long beside a long one as without it."""
    decode, what, longest = (
        partial(case.step, subject, "decode"),
        f"a decode step ({case.kind})",
        case.contexts[-1],
    )

    def over(context: int) -> Work:
        return work_of(decode(((context - 1, 1),) * 2))

    grows = partial(expect_growth, subject)
    contexts = {"what": f"{what} of 2 requests", "of": "tokens of context"}
    grows(case.contexts, over, slack=_SLACK, **contexts)
    if subject.thorough:  # where cached tokens take most of the time, what grows with their square shows
        grows((512, 4096), over, slack=_SLACK / 1.5, **contexts)
    grows(
        (2, 8, 32),
        lambda batch: work_of(decode(((63, 1),) * batch)),
        slack=_SLACK,
        what=f"{what} over 64 tokens",
        of="requests",
    )
    grows(
        (1, 16),
        lambda batch: work_of(decode(((longest - 1, 1),) * batch), new_memory=True),
        slack=_SLACK / 2,  # there is enough work to tell
        what=f"{what} over {longest} tokens",
        of="requests",
        fix="read for each request its own tokens, and not those of the batch",
    )
    long, short = ((longest * 2 - 1, 1),), ((7, 1),) * _SHORT
    together, *parts = (work_of(decode(requests)).run for requests in (long + short, long, short))
    expect_ratio(
        subject,
        Work(together, new_memory=True),  # it takes as much on both sides
        Work(lambda: [run() for run in parts], new_memory=True),
        most=_PADDED,
        what=f"{what} of one request of {long[0][0] + 1} tokens and {_SHORT} of 8",
        beside="the long one and the short ones, one batch after the other",
        fix="read of each request the tokens that it has: its own length bounds the loop over its keys, not the longest"
        " of the batch",
    )
    dtypes = compute_dtypes(subject)
    types: list[dict[str, Any]] = [{"dtype": dtype} for dtype in dict.fromkeys((dtypes[0], dtypes[-1]))]
    types += [{"dtype": dtypes[-1], "kv_dtype": name} for name in eight_bit_dtypes(subject)[:1]]
    for fields in types:  # what widens all of the cache shows in the narrowest
        among = decode(((_LARGE_POOL - 1, 1), (63, 1)), table=_LARGE_TABLE, **fields)
        expect_ratio(
            subject,
            work_of(among.following("decode", [1]), new_memory=True),
            work_of(decode(((63, 1),), **fields), new_memory=True),
            most=_SLACK,
            what=f"{what} over 64 tokens in {[*fields.values()][-1]}, in a pool of {_LARGE_POOL + 64} slots and with a"
            f" request table of {_LARGE_TABLE[0]} rows of {_LARGE_TABLE[1]},",
            beside="in a pool and with a table that are just large enough",
        )


@_timed(
    fix="gather the prefix once for all new tokens of a request, and attend in blocks, not token by token"
)
def extend_time_grows_with_the_tokens(subject: Subject, case: TimedAttention) -> None:
    """A prefill of 512 tokens takes no more than 64 times as long as of 64 (each sees all before it); 16 new tokens
    against 32 times the prefix take 32 times as long, or less."""
    prefill, what = partial(case.step, subject, "extend"), f"a prefill ({case.kind})"
    grows, slack = partial(expect_growth, subject), _SLACK
    news, prefixes = (64, 256, 512), case.contexts
    grows(news, lambda n: work_of(prefill(((0, n),))), slack=slack / 2, power=2, what=what, of="new tokens")
    what += " of 16 tokens"
    grows(prefixes, lambda n: work_of(prefill(((n, 16),))), slack=slack, what=what, of="tokens of prefix")


@_timed(
    fix="plan, tune and compile for ranges of lengths, not for each: a decode has another length at each step, and each"
    " prompt its own",
)
def new_lengths_take_no_longer(subject: Subject, case: TimedAttention) -> None:
    """A decode step at a context that no step had before, and a prefill of as many tokens as none had, do not take
    eight times as long as the same again; what a device does once for all lengths, or for some, may."""
    _expect_no_plans(subject, case, "decode")
    _expect_no_plans(subject, case, "extend")


def _expect_no_plans(subject: Subject, case: TimedAttention, mode: Literal["decode", "extend"]) -> None:
    step, lengths = case.step(subject, mode, ((0, _LENGTHS), (0, 8))), iter(range(9, _LENGTHS))
    latest: list[Work] = []

    def longer() -> None:
        """The first request with one token more, on the same backend."""
        latest[:] = [work_of(step.following(mode, [0], lengths=[next(lengths)]))]

    def once() -> None:
        latest[0].run()

    for _ in range(_KNOWN):
        longer()
        once()
    expect_ratio(
        subject,
        Work(once, longer),
        Work(once),
        what=f"{mode} ({case.kind}) at a length that is new",
        beside="at one that was seen before",
    )


@_timed(
    fix="compute with the device's matrix operations or compiled kernels, over all heads and tokens at once"
)
def attention_is_not_slower_than_torch(subject: Subject, case: TimedAttention) -> None:
    """Decode steps and prefills do not take 100 times as long as the same products of matrices in plain torch, not even
    a decode step of one short request; nor a prefill of 512 tokens ten times as long as they and one of two tokens."""
    few, some = case.contexts[0] - 1, case.contexts[-1] // 2 - 1
    asked: tuple[tuple[Literal["decode", "extend"], Requests], ...] = (
        ("decode", ((few, 1),)),
        ("decode", ((some, 1),) * 4),
        ("extend", ((some, 128), (0, 128))),
    )
    for mode, requests in asked:
        step = case.step(subject, mode, requests)
        what = f"{mode} ({case.kind}) of requests of {requests} cached and new tokens"
        expect_like_torch(subject, work_of(step), torchs_work(step), what, most=100.0)
    prefill, shortest = (case.step(subject, "extend", ((0, new),)) for new in (512, 2))
    products, call = torchs_work(prefill), work_of(shortest).run
    expect_ratio(
        subject,
        work_of(prefill),
        Work(lambda: (products(), call())),
        most=_BY_TOKEN,
        what=f"a prefill ({case.kind}) of 512 tokens",
        beside="its matrix products in torch and a prefill of 2 tokens",
        fix="attend in blocks of queries, not query by query",
    )


_REQUESTS = (4, 64)
_TOKENS = 32
_ALIKE = 3.0
_LEAST = 1 << 20
"""Bytes that a device takes at a time, and that are no growth."""


@check(
    level=Level.KERNELS,
    requires=(attention_backend(), kv_pool()),
    cases=steps(extend(), small=True),  # rows of a batch are small beside what is for all pairs
    seconds=120,
    fix="keep scores and masks of a request, or of a block of it, at a time: no tensor of all new tokens of the batch"
    " by all of its tokens",
)
def prefill_memory_grows_with_the_tokens(subject: Subject, case: AttentionCase) -> None:
    """The largest tensor that a prefill of 64 requests makes, or the memory that the device says it took at most, is
    16 times that of 4 requests as long, or little more, and not 256 times."""
    taken = []
    for requests in _REQUESTS:
        step = AttentionStep(subject, replace(case, requests=((0, _TOKENS),) * requests))
        with torch.no_grad():
            taken.append(memory_taken(subject, work_of(step).run))
    most = _ALIKE * _REQUESTS[1] / _REQUESTS[0] * taken[0] + _LEAST
    expect(
        taken[1] <= most,
        f"a prefill of {_REQUESTS[0]} requests of {_TOKENS} tokens takes {taken[0]} bytes at a time, and of"
        f" {_REQUESTS[1]} requests {taken[1]}, {taken[1] / max(1, taken[0]):.3g} times as many",
    )
