"""Level 4: the time of masks of grammars, and of decodes of layers with a state beside how many states there are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from sglang_platform.conformance.check import NotApplicable, check
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.timing import Work, expect_ratio
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_MANY, _FEW = 2048, 16
_REQUESTS = 4
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
    logits = torch.zeros(_REQUESTS, _VOCABULARY, device=subject.device)
    allowed = torch.full((_REQUESTS, _VOCABULARY // 32), -1, dtype=torch.int32, device=subject.device)
    bits = torch.arange(32, dtype=torch.int32, device=subject.device)

    def plain() -> torch.Tensor:
        forbidden = ((allowed[:, :, None] >> bits) & 1).flatten(1) == 0
        return logits.masked_fill_(forbidden, float("-inf"))

    expect_ratio(
        subject,
        Work(lambda: function(logits, allowed)),
        Work(plain),
        most=_TORCH,
        what=f"a mask over {_VOCABULARY} tokens for {_REQUESTS} requests",
        beside="in a few operations of torch",
    )


@dataclass(frozen=True)
class PooledDecode:
    kernel: str


def pooled_decodes(subject: Subject, rng: random.Random) -> Iterator[PooledDecode]:
    brought = getattr(subject.platform, "get_state_kernels", dict)()
    for kernel in _DECODES:
        if kernel in brought:
            yield PooledDecode(kernel)


@check(
    level=Level.KERNELS,
    cases=pooled_decodes,
    seconds=300,
    fix="read and write the states of the step's requests alone, by their slots; no copy is made of the pool",
)
def state_decodes_read_their_own_states(subject: Subject, case: PooledDecode) -> None:
    """A decode of four requests takes as long beside 2,048 states as beside 16: it reads and writes its own."""
    kernel = subject.platform.get_state_kernels()[case.kernel]
    generator = subject.torch_rng()

    def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.rand(shape, generator=generator).to(dtype).to(subject.device)

    def decode(slots: int) -> Work:
        dtype = getattr(torch, compute_dtypes(subject)[0])
        own = torch.arange(1, _REQUESTS + 1, dtype=torch.int32, device=subject.device)
        return Work(_DECODES[case.kernel](kernel, numbers, dtype, own, slots), new_memory=True)

    expect_ratio(
        subject,
        decode(_MANY),
        decode(_FEW),
        most=_SLACK,
        what=f"{case.kernel} of {_REQUESTS} tokens, beside {_MANY} states,",
        beside=f"beside {_FEW}",
    )


_Numbers = Callable[..., torch.Tensor]


def _convolution(
    kernel: Callable[..., Any], numbers: _Numbers, dtype: torch.dtype, own: torch.Tensor, slots: int
) -> Callable[[], Any]:
    channels, width = 2048, 4
    x, weight = numbers(len(own), channels, dtype=dtype), numbers(channels, width, dtype=dtype)
    states = numbers(slots, channels, width - 1, dtype=dtype)
    return lambda: kernel(x, weight, None, None, own, None, states, silu=True)


def _delta_rule(
    kernel: Callable[..., Any], numbers: _Numbers, dtype: torch.dtype, own: torch.Tensor, slots: int
) -> Callable[[], Any]:
    heads, wide = 4, 48
    q, k, v = (numbers(len(own), heads, wide, dtype=dtype) for _ in range(3))
    log_decay, step = -numbers(len(own), heads), numbers(len(own), heads)
    states = numbers(slots, heads, wide, wide)
    return lambda: kernel(q, k, v, log_decay, step, None, own, states, scale=0.1)


def _state_space(
    kernel: Callable[..., Any], numbers: _Numbers, dtype: torch.dtype, own: torch.Tensor, slots: int
) -> Callable[[], Any]:
    heads, wide = 4, 48
    x, step, a = numbers(len(own), heads, wide, dtype=dtype), numbers(len(own), heads), -numbers(heads)
    b, c = (numbers(len(own), 1, wide, dtype=dtype) for _ in range(2))
    states = numbers(slots, heads, wide, wide)
    return lambda: kernel(x, step, a, b, c, None, None, own, states)


_DECODES: dict[str, Callable[..., Callable[[], Any]]] = {
    "short_convolution": _convolution,
    "gated_delta_rule": _delta_rule,
    "state_space": _state_space,
}
