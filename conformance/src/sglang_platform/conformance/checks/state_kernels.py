"""Level 4: masks of grammars, and the kernels of layers that keep a state, against float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Any

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes
from sglang_platform.conformance.fixtures.device_reads import ReadsOfTheDevice
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles import states as oracle
from sglang_platform.conformance.subject import Subject

_CLOSE = {"float32": 2e-4, "bfloat16": 3e-2, "float16": 5e-3}
"""Of the largest number that must come out: sums over 64 to 200 tokens, in float32, rounded once to the type."""


@dataclass(frozen=True)
class Mask:
    requests: int
    vocabulary: int
    words: int
    dtype: str
    padded: bool = False


def masks(subject: Subject, rng: random.Random) -> Iterator[Mask]:
    dtypes = compute_dtypes(subject)
    sizes = [
        (1, 32, 1),
        (3, 40, 2),
        (2, 31, 1),
        (5, 1000, 32),
        (0, 64, 2),
        (2, 64, 3),
        (3, 151_936, 4748),
        (130, 72, 3),
    ]
    for at, (requests, vocabulary, words) in enumerate(sizes):
        yield Mask(requests, vocabulary, words, dtypes[at % len(dtypes)], padded=at % 2 == 1)


@check(
    level=Level.KERNELS,
    cases=masks,
    fix="set to -inf, in place, each logit whose bit (i % 32 of word i // 32, the lowest first) is 0, and no other",
)
def token_bitmask_masks_in_place(subject: Subject, case: Mask) -> None:
    """The function of `get_token_bitmask_fn()` makes -inf of what a grammar forbids, of vocabularies that fill their
    last word and that do not, in place, and touches neither the others nor the mask: also where the logits are a slice
    of rows that are padded, where some are -inf before, and where a request may have no token at all."""
    function = getattr(subject.platform, "get_token_bitmask_fn", lambda: None)()
    if function is None:
        raise NotApplicable("get_token_bitmask_fn() answers None: core's own is used")
    generator = subject.torch_rng()
    dtype = getattr(torch, case.dtype)
    logits = torch.randn(case.requests, case.vocabulary, generator=generator).to(dtype)
    logits[:, ::7] = float("-inf")
    bits = torch.randint(-(1 << 31), 1 << 31, (case.requests, case.words), generator=generator).to(
        torch.int32
    )
    bits[2:3] = 0
    bits[1::4, 0] = -1  # all of the first word's tokens, and not all of the others'
    allowed = ((bits[:, :, None] >> torch.arange(32)) & 1).flatten(1)[:, : case.vocabulary].bool()
    wanted = logits.masked_fill(~allowed, float("-inf"))
    rows = torch.nn.functional.pad(logits, (0, 64 if case.padded else 0), value=1.0).to(subject.device)
    given, mask = rows[:, : case.vocabulary], bits.to(subject.device, copy=True)
    answer = function(given, mask)
    expect(
        answer is None,
        f"it answers {type(answer).__name__}, not None: the host reads the logits that it gave",
    )
    got = given.cpu()
    expect(torch.equal(mask.cpu(), bits), "it changes the mask")
    expect(bool((rows[:, case.vocabulary :] == 1).all()), "it changes what lies behind the logits")
    if not torch.equal(got, wanted):
        row, token = torch.nonzero(got != wanted)[0].tolist()
        bit = "allowed" if bool(allowed[row, token]) else "forbidden"
        expect(
            False,
            f"token {token} of request {row} is {bit}; its logit was {logits[row, token].item():.4g} and is"
            f" {got[row, token].item():.4g}",
        )


@dataclass(frozen=True)
class StateStep:
    kernel: str
    step: str
    dtype: str


_DEALT = ": value heads read key heads, or groups, in turn"
_GROUPED = (
    "value head h reads key head h // (value heads / key heads): repeat_interleave() heads, not repeat()"
)

_STEPS = {
    "decode": None,
    "prefill": (0, 3, 3, 4, 70),
    "long prefill": (0, 1, 130, 193, 200),
    "whole chunks": (0, 64, 64, 192),
    "one request": (0, 1100),
    "padded prefill": (0, 70, 74, 77, 77),
    "many requests": tuple(accumulate((0, 3, 1, 4, 2, 3, 0, 2, 5, 1, 3, 2, 4, 1, 70, 0))),
    "wide decode": None,
}
_SLOTS = {
    "decode": (4, 0, -1, 6),
    "prefill": (5, 1, 0, 3),
    "long prefill": (2, 6, 4, 0),
    "whole chunks": (3, 1, 6),
    "one request": (5,),
    "padded prefill": (3, -1, 1, -1),
    "many requests": tuple(range(15, 0, -1)),
    "wide decode": tuple(range(200, 0, -1)),
}
_FAR = 256
"""Slots behind those, and behind numbers of 8 bits, that requests of the variants have."""

_NEITHER = {"prefill": 3, "long prefill": 3}
"""Tokens at the end that belong to no request."""

_MANY = 4096
"""Tokens more that gates are asked for, in the variants."""

_ROWS = 67_200
"""Of a gated norm, which has one for each head of a token: 2,100 tokens of 32 heads."""


def steps(subject: Subject, rng: random.Random) -> Iterator[StateStep]:
    brought = getattr(subject.platform, "get_state_kernels", dict)()
    for kernel in (name for name in _KERNELS if name in brought):
        for at, step in enumerate(_STEPS):
            yield StateStep(kernel, step, compute_dtypes(subject)[at % len(compute_dtypes(subject))])


@check(
    level=Level.KERNELS,
    cases=steps,
    fix="compute what contract.state_kernels says, in float32, and update in place the slots of the step's requests",
)
def state_kernels_follow_their_definition(subject: Subject, case: StateStep) -> None:
    """Each kernel of `get_state_kernels()` gives what its definition gives, in decodes of 4 and of 200 requests, in
    prefills of one to 1,100 tokens and of 15 requests, gates of more than 4,096 tokens and norms of more than 65,535
    rows too, convolutions of three and four taps, with and without the arguments that may be None, with slots of 32
    and of 64 bits, with states of 32 and of 16 bits, with decays that leave nothing and keys of zeros; states of the
    requests are updated in place, and stay as they are, in 32 bits, where a step adds nothing; those of others stay,
    padded requests and tokens of nobody come out as zero, inputs stay as they are. A second call has the tensors of the
    first, with other numbers and other lengths in them, and a third other weights, slices of a projection, slots past
    the 255th, and states between which others lie."""
    kernel = subject.platform.get_state_kernels()[case.kernel]
    first = _Drawn(subject, case)
    for drawn in (first, _Drawn(subject, case, over=first), _Drawn(subject, case, variant=True)):
        _KERNELS[case.kernel](drawn, kernel, drawn.variant)
        drawn.judge_reads()


class _Drawn:
    """Random inputs of one step, on the CPU and on the device, and the judge of what comes out."""

    def __init__(
        self, subject: Subject, case: StateStep, *, variant: bool = False, over: _Drawn | None = None
    ) -> None:
        """`over`: a call whose tensors on the device are written over, and given again."""
        self.subject, self.case, self._reads = subject, case, ReadsOfTheDevice()
        self.variant, self._numbers = variant, count()
        self._there: dict[Any, torch.Tensor] = {} if over is None else over._there
        self.dtype = getattr(torch, case.dtype)
        self._rng = torch.Generator().manual_seed(subject.seed + variant + 2 * (over is not None))
        self.far = _FAR if variant else 0
        self.pool = max(_SLOTS[case.step]) + 2 + self.far
        starts = _STEPS[case.step]
        if starts is not None and over is not None:
            starts = tuple(starts[-1] - start for start in reversed(starts))
        self.starts = None if starts is None else torch.tensor(starts, dtype=torch.int32)
        slots = [slot + self.far * (slot % 2) if slot >= 0 else slot for slot in _SLOTS[case.step]]
        self.slots = torch.tensor(slots, dtype=torch.int64 if variant else torch.int32)
        self.tokens = len(slots) if starts is None else starts[-1] + _NEITHER.get(case.step, 0)
        self.owned = self.tokens if starts is None else starts[-1]

    def numbers(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.randn(*shape, generator=self._rng).to(dtype or self.dtype)

    def call(
        self, kernel: Callable[..., Any], *given: Any, states: torch.Tensor | None = None, **named: Any
    ) -> Any:
        """(what it answers, the states after it). Raises CheckFailed where it changes what it must not."""
        there = [self._given(one) if isinstance(one, torch.Tensor) else one for one in given]
        pool = None if states is None else self._pool_of(states)
        with self._reads:
            got = kernel(*there, *(() if pool is None else (pool,)), **named)
        for at, (before, after) in enumerate(zip(given, there, strict=True)):
            if isinstance(before, torch.Tensor):
                expect(torch.equal(before, after.cpu()), f"it changes its argument {at + 1}")
        return got, None if pool is None else pool.cpu()

    def judge_reads(self) -> None:
        """A decode runs in graphs, where nothing may depend on what stands on the device."""
        if self.starts is None and self.subject.platform.capabilities.graph_capture:
            ops = ", ".join(sorted(self._reads.ops))
            expect(
                not ops,
                f"a decode calls {ops}, which waits for numbers of the device: no graph can hold it",
                fix="mask rows, and multiply or select by the mask: shapes of a decode follow from shapes alone",
            )

    def _given(self, one: torch.Tensor) -> torch.Tensor:
        """On the device; with slots that are far, what tokens have is a slice of a projection, as models cut it up, or,
        in prefills of one request, a view of what is by channels first."""
        if not self.far or one.dim() < 2 or len(one) < self.tokens:
            return self._written(one)
        if self.case.step == "one request":
            return one.transpose(0, -1).contiguous().to(self.subject.device).transpose(0, -1)
        wide = torch.cat((torch.ones_like(one), one, torch.ones_like(one)), dim=1).to(self.subject.device)
        return wide[:, one.shape[1] : 2 * one.shape[1]]

    def _written(self, one: torch.Tensor) -> torch.Tensor:
        """On the device, in the place of what an earlier call gave there; of bounds and slots, of any earlier one."""
        at = "starts" if one is self.starts else "slots" if one is self.slots else next(self._numbers)
        if at not in self._there:
            self._there[at] = one.to(self.subject.device, copy=True)
        return self._there[at].copy_(one)

    def _pool_of(self, states: torch.Tensor) -> torch.Tensor:
        """A copy on the device. With slots that are far, what a slot keeps of other layers lies between, as where the
        host keeps states and keys in one allocation."""
        if not self.far:
            return states.to(self.subject.device, copy=True)
        wide = torch.zeros(len(states), 2, *states.shape[1:], dtype=states.dtype, device=self.subject.device)
        wide[:, 1] = states.to(self.subject.device)
        return wide[:, 1]

    def judge_rest(self, got: torch.Tensor) -> None:
        """Tokens of no request come out as zero."""
        rest = got.cpu()[self.owned :]
        expect(
            bool((rest == 0).all()),
            f"{len(rest)} tokens behind those of the requests come out as {rest.flatten()[:3].tolist()}, not as zero",
        )

    def judge(
        self,
        got: Any,
        wanted: torch.Tensor,
        what: str,
        rows: int | None = None,
        *,
        exact: bool = False,
        tiled: Callable[[], torch.Tensor] | None = None,
    ) -> None:
        """`rows`: so many of the first dimension count. `exact`: it is not rounded to the type of the inputs. `tiled`:
        what comes out where heads of keys are dealt to those of values in turn."""
        good = isinstance(got, torch.Tensor) and got.shape == wanted.shape
        expect(
            good,
            f"{what} comes as {list(got.shape) if hasattr(got, 'shape') else got!r}, not {list(wanted.shape)}",
        )
        here, wanted = got.cpu().double()[:rows], wanted.double()[:rows]
        largest = float(wanted.abs().max()) if wanted.numel() else 0.0
        off = (here - wanted).abs()
        off = torch.where(torch.isfinite(here), off, torch.inf)
        close = _CLOSE["float32" if exact else self.case.dtype] * max(largest, 1e-3)
        if off.numel() and float(off.max()) > close:
            at = tuple(torch.nonzero(off == off.max())[0].tolist())
            dealt = tiled is not None and float((here - tiled().double()[:rows]).abs().max()) <= close
            raise CheckFailed(
                f"{what} at {list(at)} is {here[at].item():.5g}, and must be {wanted[at].item():.5g}"
                f" (the largest is {largest:.4g}){_DEALT if dealt else ''}",
                fix=_GROUPED if dealt else None,
            )

    def judge_still(self, states: torch.Tensor, got: torch.Tensor) -> None:
        """A step that adds nothing, and lets nothing decay, leaves states as they are."""
        self.judge(got, states, "of a step that adds nothing, and lets nothing decay, the state", exact=True)

    def judge_states(self, before: torch.Tensor, got: torch.Tensor, wanted: torch.Tensor) -> None:
        used = {slot for slot in self.slots.tolist() if slot >= 0}
        for slot in range(len(before)):
            if slot not in used:
                expect(
                    torch.equal(got[slot], before[slot]),
                    f"slot {slot} is no request's, and its state changes",
                )
        self.judge(got, wanted, "the state")


def _convolution(drawn: _Drawn, kernel: Callable[..., Any], variant: bool) -> None:
    for pattern in (True, False) if variant and drawn.starts is not None else (None,):
        for taps in (4, 3) if variant else (4,):  # LFM2 has three
            _one_convolution(drawn, kernel, variant, pattern, taps)


def _one_convolution(
    drawn: _Drawn, kernel: Callable[..., Any], variant: bool, first_resumes: bool | None, width: int
) -> None:
    """`first_resumes`: whether the first request and every second behind it do, and the others do not."""
    channels = 4104 if variant and drawn.starts is None else 12  # Qwen3-Next has 8192 of them
    x, weight = drawn.numbers(drawn.tokens, channels), drawn.numbers(channels, width)
    bias = drawn.numbers(channels) if variant else None
    states = drawn.numbers(drawn.pool, channels, width - 1 + variant)
    resumes = None
    if first_resumes is not None:
        resumes = (torch.arange(len(drawn.slots)) % 2 == 0) == first_resumes
    got, after = drawn.call(
        kernel, x, weight, bias, drawn.starts, drawn.slots, resumes, states=states, silu=not variant
    )
    wanted, states_after = oracle.convolution(
        x, weight, bias, drawn.starts, drawn.slots, resumes, states, not variant
    )
    drawn.judge(got, wanted, "the output", drawn.owned)
    drawn.judge_rest(got)
    newest = slice(1 - width, None)  # what is older than the kernel's width is read by nobody
    drawn.judge_states(states[..., newest], after[..., newest], states_after[..., newest])


def _gates(drawn: _Drawn, kernel: Callable[..., Any], variant: bool) -> None:
    heads = 48 if variant else 6  # Qwen3-Next has 32 value heads, others 64
    # 100: exp() of some is beyond float32, and their softplus is they themselves.
    tokens = drawn.tokens + _MANY * variant
    a, b = (drawn.numbers(tokens, heads) * (100 if variant else 1) for _ in range(2))
    decay_log, bias = drawn.numbers(heads), drawn.numbers(heads)
    got, _ = drawn.call(kernel, a, b, decay_log, bias)
    for one, wanted, what in zip(
        got, oracle.gates(a, b, decay_log, bias), ("the decay", "the step"), strict=True
    ):
        expect(one.dtype == torch.float32, f"{what} comes as {one.dtype}, not float32")
        drawn.judge(one, wanted, what, exact=True)


def _delta_rule(drawn: _Drawn, kernel: Callable[..., Any], variant: bool) -> None:
    few = drawn.case.step in ("decode", "prefill")
    for each in (2, 4, *((20,) if few else ())) if variant else (1,):  # Qwen3-Next has 32 value heads
        _one_delta_rule(drawn, kernel, each, drawn.dtype if variant else torch.float32)
    if variant:
        _one_delta_rule(drawn, kernel, 2, torch.float32, forgetful=True)
    else:
        _one_delta_rule(drawn, kernel, 1, torch.float32, still=True)


def _one_delta_rule(
    drawn: _Drawn,
    kernel: Callable[..., Any],
    each: int,
    pool: torch.dtype,
    *,
    forgetful: bool = False,
    still: bool = False,
) -> None:
    """`each`: value heads of a key head. `pool`: the type of the states. `forgetful`: every second head forgets all in
    a few tokens, as Qwen3-Next's do whose decay is 16 and more: the product of its decays is no float32; and some
    queries and keys are zeros. `still`: nothing is added, and nothing forgotten."""
    heads, k_dim, v_dim, scale = 2, 16, 8 if each < 4 else 24, 0.25  # values narrower and wider than keys
    q, k = (drawn.numbers(drawn.tokens, heads, k_dim) for _ in range(2))
    if forgetful:
        q[2::5], k[1::5] = 0, 0  # have no direction
    v = drawn.numbers(drawn.tokens, heads * each, v_dim)
    log_decay = -drawn.numbers(drawn.tokens, heads * each, dtype=torch.float32).abs() * 0.2
    if forgetful:
        log_decay[:, ::2] = 90 * log_decay[:, ::2] - 2
    step = torch.sigmoid(drawn.numbers(drawn.tokens, heads * each, dtype=torch.float32))
    if still:
        log_decay, step = torch.zeros_like(log_decay), torch.zeros_like(step)
    states = drawn.numbers(drawn.pool, heads * each, v_dim, k_dim, dtype=pool)
    given = (q, k, v, log_decay, step, drawn.starts, drawn.slots)
    (got, before), after = drawn.call(kernel, *given, states=states, scale=scale)
    wanted, chunks, states_after = oracle.delta_rule(
        (q, k, v), log_decay, step, drawn.starts, drawn.slots, states, scale
    )

    def tiled() -> torch.Tensor:
        keys = (one.repeat(1, each, 1) for one in (q, k))
        return oracle.delta_rule((*keys, v), log_decay, step, drawn.starts, drawn.slots, states, scale)[0]

    drawn.judge(got, wanted, "the output", drawn.owned, tiled=tiled)
    drawn.judge_rest(got)
    drawn.judge_states(states, after, states_after)
    if still:
        drawn.judge_still(states, after)
    if chunks is not None:
        if bool((drawn.slots >= 0).all()):  # of padding there are none, or anything
            drawn.judge(before, chunks, "the states before each chunk")
    else:
        expect(before is None, "in a decode it answers with states before chunks, not with None")


def _state_space(drawn: _Drawn, kernel: Callable[..., Any], variant: bool) -> None:
    for still in (False,) if variant else (False, True):
        _one_state_space(drawn, kernel, variant, still)


def _one_state_space(drawn: _Drawn, kernel: Callable[..., Any], variant: bool, still: bool) -> None:
    heads, groups, n = 4, 1 + variant, 16
    p = 80 if variant and drawn.starts is None else 8
    x = drawn.numbers(drawn.tokens, heads, p)
    step = drawn.numbers(drawn.tokens, heads, dtype=torch.float32).abs() * (0.0 if still else 0.3)
    a = -drawn.numbers(heads, dtype=torch.float32).abs()
    b, c = (drawn.numbers(drawn.tokens, groups, n) for _ in range(2))
    d = drawn.numbers(heads, dtype=torch.float32) if variant else None
    states = drawn.numbers(drawn.pool, heads, p, n, dtype=drawn.dtype if variant else torch.float32)
    got, after = drawn.call(kernel, x, step, a, b, c, d, drawn.starts, drawn.slots, states=states)
    wanted, states_after = oracle.state_space(x, step, a, (b, c), d, drawn.starts, drawn.slots, states)

    def tiled() -> torch.Tensor:
        ours = tuple(one.repeat(1, heads // groups, 1) for one in (b, c))
        return oracle.state_space(x, step, a, ours, d, drawn.starts, drawn.slots, states)[0]

    drawn.judge(got, wanted, "the output", drawn.owned, tiled=tiled)
    drawn.judge_rest(got)
    drawn.judge_states(states, after, states_after)
    if still:
        drawn.judge_still(states, after)


def _gated_norm(drawn: _Drawn, kernel: Callable[..., Any], variant: bool) -> None:
    width = 48
    x, gate, weight = (
        drawn.numbers(drawn.tokens, width),
        drawn.numbers(drawn.tokens, width),
        drawn.numbers(width),
    )
    ways = [
        (x, gate, weight, "silu", None),
        (x, gate, None, "sigmoid", 16),
        (x, None, weight, "swish", 16),
        (x, gate, weight, "swish", 16),
    ]
    if variant and drawn.case.step == "one request":
        ways.append((drawn.numbers(_ROWS, width), drawn.numbers(_ROWS, width), weight, "silu", None))
    for rows, by, scale, activation, group_size in ways:
        named = {"epsilon": 1e-5, "activation": activation, "group_size": group_size, "gate_first": variant}
        got, _ = drawn.call(kernel, rows, by, scale, **named)
        wanted = oracle.gated_norm(rows, by, scale, 1e-5, activation, group_size, variant)
        drawn.judge(got, wanted, f"the output with {activation}, groups of {group_size or 'all'}")


_KERNELS: dict[str, Callable[[_Drawn, Callable[..., Any], bool], None]] = {
    "short_convolution": _convolution,
    "gated_delta_gates": _gates,
    "gated_delta_rule": _delta_rule,
    "state_space": _state_space,
    "gated_rms_norm": _gated_norm,
}
