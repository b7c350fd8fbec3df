"""Level 4 mutants: kernels of layers that keep a state per request, and masks of grammars."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from mutant import mutant

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS

Function = Callable[..., Any]


def state(
    kernel: str, *, defect: str, says: str, check: str = "state_kernels_follow_their_definition"
) -> Callable[[Function], type]:
    """Decorates `wrong(own, ...)`, which stands in for a state kernel and is handed core's own."""

    def register(wrong: Function) -> type:
        def get_state_kernels(self: Any) -> dict[str, Function]:
            return {kernel: partial(wrong, PORTABLE_STATE_KERNELS[kernel])}

        return _platform(wrong, check, defect, says, get_state_kernels=get_state_kernels)

    return register


def mask(
    *, defect: str, says: str, check: str = "token_bitmask_masks_in_place"
) -> Callable[[Function], type]:
    """Decorates `wrong(logits, allowed)`, `allowed` being the mask's bits, bool [B, V]."""

    def register(wrong: Function) -> type:
        def apply(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
            bits = (bitmask[:, :, None] >> torch.arange(32)) & 1
            wrong(logits, bits.flatten(1)[:, : logits.shape[1]].bool())

        def get_token_bitmask_fn(self: Any) -> Function:
            return apply

        return _platform(wrong, check, defect, says, get_token_bitmask_fn=get_token_bitmask_fn)

    return register


def _platform(wrong: Function, check: str, defect: str, says: str, **methods: Function) -> type:
    cls = type(wrong.__name__, (ReferencePlatform,), {**methods, "__module__": wrong.__module__})
    return mutant(check=f"kernels.{check}", defect=defect, says=says)(cls)  # type: ignore[no-any-return]


_OUTPUT, _STATE = "the output at", "the state at"


@state(
    "short_convolution",
    defect="a request that begins anew is convolved with what its slot's last owner left",
    says=_OUTPUT,
)
def ResumesAlways(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    return own(x, weight, bias, starts, slots, None, states, silu=silu)


@state("short_convolution", defect="the bias is left out of decodes", says=_OUTPUT)
def DecodesWithoutBias(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    return own(x, weight, None if starts is None else bias, starts, slots, resumes, states, silu=silu)


@state(
    "short_convolution",
    defect="a padded row, whose slot is negative, shifts the state of the last slot",
    says=_OUTPUT,
)
def PaddingShiftsTheLastSlot(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    slots = slots if starts is not None else torch.where(slots < 0, slots + len(states), slots)
    return own(x, weight, bias, starts, slots, resumes, states, silu=silu)


@state(
    "short_convolution",
    defect="after a prompt shorter than the kernel, older inputs of the state are zero",
    says=_STATE,
)
def ShortPromptForgets(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    y = own(x, weight, bias, starts, slots, resumes, states, silu=silu)
    if starts is not None:
        for slot, n in zip(slots.tolist(), (starts[1:] - starts[:-1]).tolist(), strict=True):
            if 0 < n < states.shape[-1]:
                states[slot, :, : states.shape[-1] - n] = 0
    return y


@state("short_convolution", defect="channels behind the first 2048 are not convolved", says=_OUTPUT)
def ChannelsOver2048Stay(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    y = own(x, weight, bias, starts, slots, resumes, states, silu=silu)
    y[:, 2048:] = x[:, 2048:]
    return y


@state(
    "short_convolution",
    defect="a short prompt that begins anew is convolved with what its slot's last owner left",
    says=_OUTPUT,
)
def ShortPromptsResume(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    if starts is not None and resumes is not None:
        resumes = resumes | (starts.diff() < weight.shape[1])
    return own(x, weight, bias, starts, slots, resumes, states, silu=silu)


@state("gated_delta_rule", defect="of more than two value heads a key head serves every second", says=_OUTPUT)
def FourValueHeadsInTurn(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    group = v.shape[1] // q.shape[1]
    if group > 2:
        q, k = q.repeat(1, group, 1), k.repeat(1, group, 1)
    return own(q, k, v, log_decay, step, starts, slots, states, scale=scale)


@state(
    "gated_delta_rule",
    defect="of the states before chunks, those behind the eighth of a request are not written",
    says="the states before each chunk",
)
def StatesOfEightChunks(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    y, before = own(q, k, v, log_decay, step, starts, slots, states, scale=scale)
    if before is not None and len(starts) == 2:
        before[8:] = 0
    return y, before


@state("state_space", defect="states that the pool keeps in 16 bits are refused", says="AssertionError")
def StatesOf16BitsRefused(own, x, step, a, b, c, d, starts, slots, states):
    assert states.dtype == torch.float32
    return own(x, step, a, b, c, d, starts, slots, states)


@state("state_space", defect="of a step that its requests fill the last token is not computed", says=_OUTPUT)
def FullStepLosesItsLast(own, x, step, a, b, c, d, starts, slots, states):
    y = own(x, step, a, b, c, d, starts, slots, states)
    if starts is not None and int(starts[-1]) == len(x):
        y[-1] = 0
    return y


@state("gated_delta_rule", defect="value heads are dealt to key heads in turn, not in runs", says=_OUTPUT)
def ValueHeadsInTurn(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    group = v.shape[1] // q.shape[1]
    q, k = q.repeat(1, group, 1), k.repeat(1, group, 1)
    return own(q, k, v, log_decay, step, starts, slots, states, scale=scale)


@state("gated_delta_rule", defect="a padded row of a decode decays the state of slot 0", says=_OUTPUT)
def PaddingDecaysSlotZero(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    if starts is None and bool((slots < 0).any()):
        states[0] *= 0.5
    return own(q, k, v, log_decay, step, starts, slots, states, scale=scale)


@state(
    "gated_delta_rule",
    defect="the states of chunks are those behind them",
    says="the states before each chunk",
)
def StatesBehindChunks(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    y, before = own(q, k, v, log_decay, step, starts, slots, states, scale=scale)
    return y, None if before is None else before.roll(-1, dims=0)


@state(
    "gated_delta_rule",
    defect="slots of 64 bits, as the host may hand over, are refused",
    says="AssertionError",
)
def SlotsOf64BitsRefused(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    assert slots.dtype == torch.int32
    return own(q, k, v, log_decay, step, starts, slots, states, scale=scale)


@state("state_space", defect="d is left out of prefills", says=_OUTPUT)
def PrefillsWithoutSkip(own, x, step, a, b, c, d, starts, slots, states):
    return own(x, step, a, b, c, d if starts is None else None, starts, slots, states)


@state("state_space", defect="a request without tokens in a batch has its state cleared", says=_STATE)
def EmptyRequestClears(own, x, step, a, b, c, d, starts, slots, states):
    y = own(x, step, a, b, c, d, starts, slots, states)
    if starts is not None:
        states[slots[starts[1:] == starts[:-1]].long()] = 0
    return y


@state(
    "state_space", defect="a prompt of more than 256 tokens leaves the state of its 256th behind", says=_STATE
)
def LongPromptStopsAt256(own, x, step, a, b, c, d, starts, slots, states):
    if starts is None or len(slots) > 1 or int(starts[-1]) <= 256:
        return own(x, step, a, b, c, d, starts, slots, states)
    first = own(x, step, a, b, c, d, starts, slots, states.clone())
    own(x[:256], step[:256], a, b[:256], c[:256], d, starts.clamp(max=256), slots, states)
    return first


@state("gated_delta_gates", defect="softplus is log(1 + exp(x)): infinite above 88", says="the decay at")
def SoftplusOverflows(own, a, b, decay_log, bias):
    return -decay_log.float().exp() * torch.log(1 + torch.exp(a.float() + bias.float())), b.float().sigmoid()


@state("gated_delta_gates", defect="gates are rounded to the 16 bits of their inputs", says="the decay at")
def GatesIn16Bits(own, a, b, decay_log, bias):
    decay, step = own(a, b, decay_log, bias)
    return decay.bfloat16().float(), step.bfloat16().float()


@state(
    "gated_rms_norm", defect="an activation of sigmoid is computed as silu", says="the output with sigmoid"
)
def SigmoidIsSilu(own, x, gate, weight, *, activation, **named):
    return own(x, gate, weight, activation="silu", **named)


@state(
    "gated_rms_norm",
    defect="groups are not looked at where the gate comes last",
    says="the output with sigmoid",
)
def GroupsWithTheGateFirstOnly(own, x, gate, weight, *, group_size, gate_first, **named):
    return own(x, gate, weight, group_size=group_size if gate_first else None, gate_first=gate_first, **named)


@mask(defect="logits that are a slice of padded rows are masked in a copy", says="is forbidden")
def PaddedLogitsMaskedInACopy(logits, allowed):
    logits.contiguous().masked_fill_(~allowed, float("-inf"))


@mask(defect="forbidden logits of 16 bits are the smallest finite number, not -inf", says="is forbidden")
def ForbiddenIsFinite(logits, allowed):
    finite = torch.finfo(logits.dtype).min
    logits.masked_fill_(~allowed, finite if logits.element_size() == 2 else float("-inf"))


@mask(defect="requests behind the first 64 are not masked", says="is forbidden")
def RequestsOver64Unmasked(logits, allowed):
    logits[:64].masked_fill_(~allowed[:64], float("-inf"))


@mask(defect="an allowed token whose logit is -inf gets a logit of 0", says="is allowed")
def RuledOutComesBack(logits, allowed):
    logits.masked_fill_(~allowed, float("-inf")).masked_fill_(allowed & logits.isinf(), 0)


@mask(defect="a request that allows no token is left as it is", says="is forbidden")
def NothingAllowedIsEverything(logits, allowed):
    logits.masked_fill_(~allowed & allowed.any(1, keepdim=True), float("-inf"))


@state("short_convolution", defect="slots behind the 255th are the 255th", says=_OUTPUT)
def SlotsOf8Bits(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    return own(x, weight, bias, starts, slots.clamp(max=255), resumes, states, silu=silu)


@state(
    "gated_delta_rule",
    defect="a request of whole chunks has no state before its last",
    says="before each chunk",
)
def LastWholeChunkIsLeftOut(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    y, before = own(q, k, v, log_decay, step, starts, slots, states, scale=scale)
    if before is None:
        return y, before
    kept, first = [], 0
    for n in starts.diff().tolist():
        chunks = -(-n // 64)
        kept.append(before[first : first + chunks - (n % 64 == 0 and n > 64)])
        first += chunks
    return y, torch.cat(kept)


@state("short_convolution", defect="tokens of no request come out as they came in", says="not as zero")
def TokensOfNobodyGoThrough(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    y = own(x, weight, bias, starts, slots, resumes, states, silu=silu)
    if starts is not None:
        y[int(starts[-1]) :] = x[int(starts[-1]) :]
    return y


@state(
    "state_space",
    defect="states are looked for side by side where others lie between",
    says=_OUTPUT,
)
def StatesSideBySide(own, x, step, a, b, c, d, starts, slots, states):
    side = torch.empty(states.shape).stride()
    return own(x, step, a, b, c, d, starts, slots, states.as_strided(states.shape, side))


_WEIGHTS: dict[object, torch.Tensor] = {}


@state(
    "short_convolution",
    defect="the weight of the first layer of a shape serves all of that shape",
    says=_OUTPUT,
)
def WeightOfTheFirstLayer(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    first = _WEIGHTS.setdefault((weight.shape, weight.dtype, starts is None), weight.clone())
    return own(x, first, bias, starts, slots, resumes, states, silu=silu)


_ALONE = "state_decodes_read_their_own_states"


@state(
    "state_space",
    defect="each decode widens the whole pool to float64 and back",
    says="beside 16 MiB of states",
    check=_ALONE,
)
def PoolIsWidened(own: Function, *given: Any) -> Any:
    *others, states = given
    wide = states.double()
    answer = own(*others, wide)
    states.copy_(wide)
    return answer


@state(
    "short_convolution",
    defect="the slots of the step are found by a look through all slots",
    says="beside 16 MiB of states",
    check=_ALONE,
)
def LooksThroughTheSlots(own: Function, *given: Any, silu: bool) -> Any:
    *others, states = given
    kept = states * 1
    answer = own(*others, kept, silu=silu)
    for slot in range(len(states)):
        states[slot] = kept[slot]
    return answer


@mask(
    defect="the logits of each word of each request's mask are written by a call of their own",
    says="a mask over 131072 tokens",
    check="token_masks_take_one_pass",
)
def WordByWord(logits: torch.Tensor, allowed: torch.Tensor) -> None:
    for row, bits in zip(logits, allowed, strict=True):
        for at in range(0, len(row), 32):
            row[at : at + 32].masked_fill_(~bits[at : at + 32], float("-inf"))


_WORKSPACES: dict[Any, torch.Tensor] = {}


@state(
    "gated_rms_norm",
    defect="the answer lies in a workspace of its shape, which the next call writes over",
    says="is written over by a later call",
)
def AnswersInAWorkspace(own, *given, **named):
    answer = own(*given, **named)
    at = (answer.shape, answer.dtype, answer.device)
    return _WORKSPACES.setdefault(at, torch.empty_like(answer)).copy_(answer)


def _by_token(step, starts, slots, rows):
    """`step(at, slot)` decodes one token of a request, and rounds its state to the pool's type."""
    answers = {}
    for slot, (begin, end) in zip(slots, pairwise(starts.tolist()), strict=True):
        for at in range(begin, end):
            answer = step(slice(at, at + 1), slot[None])
            answers[at] = (answer[0] if isinstance(answer, tuple) else answer)[0]
    nothing = torch.zeros_like(next(iter(answers.values())))
    return torch.stack([answers.get(at, nothing) for at in range(rows)])


@state(
    "state_space",
    defect="a prefill rounds the state to the pool's type after each token",
    says="and must be",
)
def StateRoundedByToken(own, x, step, a, b, c, d, starts, slots, states):
    if starts is None:
        return own(x, step, a, b, c, d, starts, slots, states)
    return _by_token(
        lambda at, slot: own(x[at], step[at], a, b[at], c[at], d, None, slot, states), starts, slots, len(x)
    )


@state(
    "gated_delta_rule",
    defect="a prefill rounds the state to the pool's type after each token",
    says="and must be",
)
def DeltasRoundedByToken(own, *given, scale):
    *each, starts, slots, states = given
    if starts is None:
        return own(*given, scale=scale)
    return _by_token(
        lambda at, slot: own(*(one[at] for one in each), None, slot, states, scale=scale),
        starts,
        slots,
        len(each[0]),
    )


_KEPT: list[Any] = []


@mask(
    defect="what a mask forbids is kept, to be looked at when a request fails",
    says="masks of grammars leave more",
    check="state_kernels_keep_no_memory",
)
def MasksAreKept(logits: torch.Tensor, allowed: torch.Tensor) -> None:
    _KEPT.append(~allowed)
    logits.masked_fill_(~allowed, float("-inf"))


@state(
    "gated_delta_rule",
    defect="the output of each step is kept, to be compared with the next",
    says="decodes of gated_delta_rule leave more",
    check="state_kernels_keep_no_memory",
)
def OutputsAreKept(own: Function, *given: Any, **named: Any) -> Any:
    _KEPT.append(own(*given, **named))
    return _KEPT[-1]
