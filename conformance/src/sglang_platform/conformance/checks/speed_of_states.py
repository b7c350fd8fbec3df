"""Level 4: the time of masks of grammars, and of decodes of layers with a state beside how many states there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sglang_platform.conformance.check import NotApplicable, check
from sglang_platform.conformance.fixtures.state_steps import REQUESTS, step_of, steps_brought
from sglang_platform.conformance.fixtures.timing import Work, expect_ratio
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

_MANY, _FEW = 2048, 16
_SLACK = 8.0
_VOCABULARY = 131_072
_TORCH = 25.0


@check(
    level=Level.KERNELS,
    seconds=120,
    fix="mask all tokens of all requests in one kernel, or in a few operations over whole rows",
)
def token_masks_take_one_pass(subject: Subject) -> None:
    """A grammar's mask over 131,072 tokens takes no more than 25 times as long as in a few operations of torch."""
    function = getattr(subject.platform, "get_token_bitmask_fn", lambda: None)()
    if function is None:
        raise NotApplicable("get_token_bitmask_fn() answers None: core's own is used")
    logits = torch.zeros(REQUESTS, _VOCABULARY, device=subject.device)
    allowed = torch.full((REQUESTS, _VOCABULARY // 32), -1, dtype=torch.int32, device=subject.device)
    bits = torch.arange(32, dtype=torch.int32, device=subject.device)

    def plain() -> torch.Tensor:
        forbidden = ((allowed[:, :, None] >> bits) & 1).flatten(1) == 0
        return logits.masked_fill_(forbidden, float("-inf"))

    expect_ratio(
        subject,
        Work(lambda: function(logits, allowed)),
        Work(plain),
        most=_TORCH,
        what=f"a mask over {_VOCABULARY} tokens for {REQUESTS} requests",
        beside="in a few operations of torch",
    )


@dataclass(frozen=True)
class PooledDecode:
    kernel: str


def pooled_decodes(subject: Subject, rng: random.Random) -> Iterator[PooledDecode]:
    for kernel in steps_brought(subject):
        yield PooledDecode(kernel)


@check(
    level=Level.KERNELS,
    cases=pooled_decodes,
    seconds=300,
    fix="read and write the states of the step's requests alone, by their slots; no copy is made of the pool",
)
def state_decodes_read_their_own_states(subject: Subject, case: PooledDecode) -> None:
    """A decode of four requests takes as long beside 2,048 states as beside 16: it reads and writes its own."""

    def decode(slots: int) -> Work:
        return Work(step_of(subject, case.kernel, slots), new_memory=True)

    expect_ratio(
        subject,
        decode(_MANY),
        decode(_FEW),
        most=_SLACK,
        what=f"{case.kernel} of {REQUESTS} tokens, beside {_MANY} states,",
        beside=f"beside {_FEW}",
    )
