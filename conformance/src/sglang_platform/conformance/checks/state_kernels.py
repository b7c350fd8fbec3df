"""Level 4: masks of grammars, and the kernels of layers that keep a state, against float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, count
from typing import Any, Literal

import torch

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect, mended_by
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

_ONCE = "keep the state in float32 while a call goes over its tokens, and round it to the pool's type once"

_STEPS = {
    "decode": (None, (4, 0, -1, 6)),
    "prefill": ((0, 3, 3, 4, 70), (5, 1, 0, 3)),
    "long prefill": ((0, 1, 130, 193, 200), (2, 6, 4, 0)),
    "whole chunks": ((0, 64, 64, 192), (3, 1, 6)),
    "one request": ((0, 1100), (5,)),
    "padded prefill": ((0, 70, 74, 77, 77), (3, -1, 1, -1)),
    "many requests": (
        tuple(accumulate((0, 3, 1, 4, 2, 3, 0, 2, 5, 1, 3, 2, 4, 1, 70, 0))),
        tuple(range(15, 0, -1)),
    ),
    "wide decode": (None, tuple(range(200, 0, -1))),
}
"""Of each where its requests start, None in a decode, and their slots."""

_FAR = 256
"""Slots behind those, and behind numbers of 8 bits, that requests of the variants have."""

_NEITHER = {"prefill": 3, "long prefill": 3}
"""Tokens at the end that belong to no request."""

_MANY = 4096
"""Tokens more that gates are asked for, in the variants."""

_ROWS = 67_200
"""Of a gated norm, which has one for each head of a token: 2,100 tokens of 32 heads."""


def kernels_brought(subject: Subject) -> list[str]:
    """The platform's own, by their names in the contract."""
    brought = getattr(subject.platform, "get_state_kernels", dict)()
    return [name for name in _KERNELS if name in brought]


def steps(subject: Subject, rng: random.Random) -> Iterator[StateStep]:
    for kernel in kernels_brought(subject):
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
    padded requests and tokens of nobody come out as zero, inputs stay as they are, and so do earlier answers. States of
    16 bits are rounded once in a call: many small steps add up. A second call has the tensors of the
    first, with other numbers and other lengths in them, and a third other weights, slices of a projection, slots past
    the 255th, and states between which others lie."""
    kernel, (calls, definition) = subject.platform.get_state_kernels()[case.kernel], _KERNELS[case.kernel]
    first = _Drawn(subject, case)
    for drawn in (first, _Drawn(subject, case, over=first), _Drawn(subject, case, variant=True)):
        for call in calls(drawn):
            with mended_by(_ONCE if call.how == "slow" else None):
                drawn.judge_call(kernel, definition, call)
        drawn.judge_answers()
        drawn.judge_reads()


def calls_of(
    subject: Subject, kernel: str, step: Literal["decode", "prefill"], least: int = 0
) -> Callable[[], Any]:
    """The same call of a kernel, over and over. Where it has states, its requests' are the first of `least` bytes."""
    drawn = _Drawn(subject, StateStep(kernel, step, compute_dtypes(subject)[0]))
    call = next(_KERNELS[kernel][0](drawn))
    given = [drawn._given(one) if isinstance(one, torch.Tensor) else one for one in call.given]
    if call.states is not None:
        more = max(0, least // call.states[0].nbytes - len(call.states))
        given.append(torch.cat((call.states, call.states[:1].expand(more, *call.states.shape[1:]))))
        given[-1] = given[-1].to(subject.device)
    return partial(subject.platform.get_state_kernels()[kernel], *given, **call.named)


@dataclass(frozen=True)
class _Call:
    """`given`: in front of the states, if there are some. `outputs`: their names; `exact`: they are float32, whatever
    the inputs are. `grouped`: places of what is given a head for each `each` others. `read`: how much of the end of a
    state is read again; 0: all. `how` a step goes that is no plain one: "still" (nothing is added, and nothing decays),
    "slow" (no token changes a state of 16 bits, and all together do) or "forgetful"."""

    given: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)
    states: torch.Tensor | None = None
    outputs: tuple[str, ...] = ("the output",)
    exact: bool = False
    grouped: tuple[int, ...] = ()
    each: int = 1
    read: int = 0
    how: str = ""


class _Drawn:
    """Random inputs of one step, on the CPU and on the device, and the judge of what comes out."""

    def __init__(
        self, subject: Subject, case: StateStep, *, variant: bool = False, over: _Drawn | None = None
    ) -> None:
        """`over`: a call whose tensors on the device are written over, and given again."""
        self.subject, self.case, self._reads = subject, case, ReadsOfTheDevice()
        self.variant, self._numbers = variant, count()
        self._there: dict[Any, torch.Tensor] = {} if over is None else over._there
        self._answers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.dtype = getattr(torch, case.dtype)
        self._rng = torch.Generator().manual_seed(subject.seed + variant + 2 * (over is not None))
        self.far = _FAR if variant else 0
        starts, owned = _STEPS[case.step]
        self.pool = max(owned) + 2 + self.far
        if starts is not None and over is not None:
            starts = tuple(starts[-1] - start for start in reversed(starts))
        self.starts = None if starts is None else torch.tensor(starts, dtype=torch.int32)
        slots = [slot + self.far * (slot % 2) if slot >= 0 else slot for slot in owned]
        self.slots = torch.tensor(slots, dtype=torch.int64 if variant else torch.int32)
        self.tokens = len(slots) if starts is None else starts[-1] + _NEITHER.get(case.step, 0)
        self.owned = self.tokens if starts is None else starts[-1]

    def numbers(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.randn(*shape, generator=self._rng).to(dtype or self.dtype)

    def judge_call(self, kernel: Callable[..., Any], definition: Callable[..., Any], call: _Call) -> None:
        """Raises CheckFailed where it gives something else than its definition, or changes what it must not."""
        there = [self._given(one) if isinstance(one, torch.Tensor) else one for one in call.given]
        states = () if call.states is None else (call.states,)
        pools = [self._pool_of(one) for one in states]
        with self._reads:
            got = kernel(*there, *pools, **call.named)
        for at, (before, after) in enumerate(zip(call.given, there, strict=True)):
            if isinstance(before, torch.Tensor):
                expect(torch.equal(before, after.cpu()), f"it changes its argument {at + 1}")

        def defined(*given: Any) -> tuple[torch.Tensor, ...]:
            answer = definition(*given, *states, **call.named)
            return answer if isinstance(answer, tuple) else (answer,)

        def tiled() -> torch.Tensor:
            dealt = (
                one.repeat(1, call.each, 1) if at in call.grouped else one
                for at, one in enumerate(call.given)
            )
            return defined(*dealt)[0]

        wanted = defined(*call.given)
        answered = got if isinstance(got, tuple) else (got,)
        self._answers += [(one, one.clone()) for one in answered if isinstance(one, torch.Tensor)]
        for what, one, must in zip(call.outputs, answered, wanted, strict=False):
            if must is None:
                expect(one is None, f"it answers with {what}, not with None")
            elif one is answered[0] and states:
                self.judge(one, must, what, self.owned, tiled=tiled if call.grouped else None)
                self.judge_rest(one)
            elif not states or bool((self.slots >= 0).all()):  # of padding there are none, or anything
                right = not call.exact or one.dtype == torch.float32
                expect(right, f"{what} comes as {one.dtype}, not float32")
                self.judge(one, must, what, exact=call.exact)
        for before, pool in zip(states, pools, strict=True):
            after = pool.cpu()
            self.judge_states(*(one[..., -call.read :] for one in (before, after, wanted[-1])))
            if call.how == "still":
                what = "of a step that adds nothing, and lets nothing decay, the state"
                self.judge(after, before, what, exact=True)

    def judge_answers(self) -> None:
        """The caller may hold one while it makes the next call."""
        for at, (answer, kept) in enumerate(self._answers):
            expect(
                torch.equal(answer.nan_to_num(), kept.nan_to_num()),
                f"answer {at + 1} of {len(self._answers)} is written over by a later call",
                fix="answer a new tensor in each call",
            )

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

    def judge_states(self, before: torch.Tensor, got: torch.Tensor, wanted: torch.Tensor) -> None:
        used = {slot for slot in self.slots.tolist() if slot >= 0}
        for slot in set(range(len(before))) - used:
            same = torch.equal(got[slot], before[slot])
            expect(same, f"slot {slot} is no request's, and its state changes")
        self.judge(got, wanted, "the state")


def _convolutions(drawn: _Drawn) -> Iterator[_Call]:
    variant, decode = drawn.variant, drawn.starts is None
    channels = 4104 if variant and decode else 12  # Qwen3-Next has 8192 of them
    for odd in (False, True) if variant and not decode else (None,):
        for width in (4, 3) if variant else (4,):  # LFM2 has three taps
            x, weight = drawn.numbers(drawn.tokens, channels), drawn.numbers(channels, width)
            bias = drawn.numbers(channels) if variant else None
            states = drawn.numbers(drawn.pool, channels, width - 1 + variant)
            # Every second request resumes.
            resumes = None if odd is None else torch.arange(len(drawn.slots)) % 2 == odd
            given = (x, weight, bias, drawn.starts, drawn.slots, resumes)
            # What is older than the kernel's width is read by nobody.
            yield _Call(given, {"silu": not variant}, states, read=width - 1)


def _gates(drawn: _Drawn) -> Iterator[_Call]:
    heads = 48 if drawn.variant else 6  # Qwen3-Next has 32 value heads, others 64
    # 100: exp() of some is beyond float32, and their softplus is they themselves.
    tokens = drawn.tokens + _MANY * drawn.variant
    a, b = (drawn.numbers(tokens, heads) * (100 if drawn.variant else 1) for _ in range(2))
    given = (a, b, drawn.numbers(heads), drawn.numbers(heads))
    yield _Call(given, outputs=("the decay", "the step"), exact=True)


def _delta_rules(drawn: _Drawn) -> Iterator[_Call]:
    """`forgetful`: every second head forgets all in a few tokens, as Qwen3-Next's do whose decay is 16 and more: the
    product of its decays is no float32; and some queries and keys are zeros, which have no direction."""
    heads, k_dim = 2, 16
    ways = [(1, torch.float32, ""), (1, torch.float32, "still")]
    if drawn.variant:  # Qwen3-Next has 32 value heads
        some = (2, 4, 20) if drawn.case.step in ("decode", "prefill") else (2, 4)
        ways = [*((each, drawn.dtype, "") for each in some), (2, torch.float32, "forgetful")]
        ways += [(1, drawn.dtype, "slow")] * (drawn.dtype != torch.float32)
    for each, pool, how in ways:
        v_dim = 8 if each < 4 else 24  # narrower and wider than keys
        q, k = (drawn.numbers(drawn.tokens, heads, k_dim) for _ in range(2))
        v = drawn.numbers(drawn.tokens, heads * each, v_dim)
        log_decay = -drawn.numbers(drawn.tokens, heads * each, dtype=torch.float32).abs() * 0.2
        step = torch.sigmoid(drawn.numbers(drawn.tokens, heads * each, dtype=torch.float32))
        if how == "forgetful":
            q[2::5], k[1::5] = 0, 0
            log_decay[:, ::2] = 90 * log_decay[:, ::2] - 2
        states = drawn.numbers(drawn.pool, heads * each, v_dim, k_dim, dtype=pool)
        if how in ("still", "slow"):
            log_decay, step = torch.zeros_like(log_decay), torch.zeros_like(step)
        if how == "slow":
            q, k, v, step = torch.ones_like(q), torch.ones_like(k), torch.full_like(v, 10), step + 0.002
            states[..., ::2], states[..., 1::2] = (sign * 0.024 / torch.finfo(pool).eps for sign in (1, -1))
        yield _Call(
            (q, k, v, log_decay, step, drawn.starts, drawn.slots),
            {"scale": 0.25},
            states,
            outputs=("the output", "the states before each chunk"),
            grouped=(0, 1),
            each=each,
            how=how,
        )


def _state_spaces(drawn: _Drawn) -> Iterator[_Call]:
    variant = drawn.variant
    heads, groups, n = 4, 1 + variant, 16
    p = 80 if variant and drawn.starts is None else 8
    slow = variant and drawn.dtype != torch.float32
    for how in ("", "slow") if slow else ("",) if variant else ("", "still"):
        x = drawn.numbers(drawn.tokens, heads, p)
        step = drawn.numbers(drawn.tokens, heads, dtype=torch.float32).abs() * (
            0.0 if how == "still" else 0.3
        )
        a = -drawn.numbers(heads, dtype=torch.float32).abs()
        b, c = (drawn.numbers(drawn.tokens, groups, n) for _ in range(2))
        d = drawn.numbers(heads, dtype=torch.float32) if variant else None
        states = drawn.numbers(drawn.pool, heads, p, n, dtype=drawn.dtype if variant else torch.float32)
        if how == "slow":
            x, b, a = torch.ones_like(x), torch.ones_like(b), a * 1e-5
            step = torch.full_like(step, 0.05)
            states[:] = 0.24 / torch.finfo(states.dtype).eps
        given = (x, step, a, b, c, d, drawn.starts, drawn.slots)
        yield _Call(given, {}, states, grouped=(3, 4), each=heads // groups, how=how)


def _gated_norms(drawn: _Drawn) -> Iterator[_Call]:
    width = 48
    x, gate = (drawn.numbers(drawn.tokens, width) for _ in range(2))
    weight = drawn.numbers(width)
    ways = [
        (x, gate, weight, "silu", None),
        (x, gate, None, "sigmoid", 16),
        (x, None, weight, "swish", 16),
        (x, gate, weight, "swish", 16),
    ]
    if drawn.variant and drawn.case.step == "one request":
        ways.append((drawn.numbers(_ROWS, width), drawn.numbers(_ROWS, width), weight, "silu", None))
    for *given, activation, group_size in ways:
        named = {"epsilon": 1e-5, "activation": activation, "group_size": group_size}
        what = f"the output with {activation}, groups of {group_size or 'all'}"
        yield _Call(tuple(given), {**named, "gate_first": drawn.variant}, outputs=(what,))


STATELESS = ("gated_delta_gates", "gated_rms_norm")
_KERNELS: dict[str, tuple[Callable[[_Drawn], Iterator[_Call]], Callable[..., Any]]] = {
    "short_convolution": (_convolutions, oracle.convolution),
    "gated_delta_gates": (_gates, oracle.gates),
    "gated_delta_rule": (_delta_rules, oracle.delta_rule),
    "state_space": (_state_spaces, oracle.state_space),
    "gated_rms_norm": (_gated_norms, oracle.gated_norm),
}
"""How each is called, and its definition."""
