"""Level 4 mutants: kernels of states and masks as other projects had them wrong; the number of the report stands behind
the defect."""

from __future__ import annotations

import torch
from mutants_of_states import mask, state


@state(
    "short_convolution",
    defect="a request that resumes with fewer than 64 tokens is convolved as if it began anew (SGLang 29368)",
    says="the output at",
)
def ShortSuffixesBeginAnew(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    if starts is not None:
        resumes = starts.diff() >= (64 if resumes is None else torch.where(resumes, 64, 1 << 30))
    return own(x, weight, bias, starts, slots, resumes, states, silu=silu)


@state(
    "short_convolution",
    defect="a decode asks which of its rows are padded, and so cannot be captured (torch 78549)",
    says="no graph can hold it",
)
def DecodeLooksForPadding(own, x, weight, bias, starts, slots, resumes, states, *, silu):
    if starts is not None:
        return own(x, weight, bias, starts, slots, resumes, states, silu=silu)
    rows, y = (slots >= 0).nonzero().flatten(), torch.zeros_like(x)
    y[rows] = own(x[rows], weight, bias, None, slots[rows], None, states, silu=silu)
    return y


@state(
    "gated_rms_norm",
    defect="rows past the 65,535th, of 2,048 tokens with 32 heads the last, are not normed (llama.cpp 27901)",
    says="the output",
)
def GatedRowsPast65535(own, x, gate, weight, **named):
    y = own(x, gate, weight, **named)
    y[65535:] = 0
    return y


@state(
    "gated_rms_norm",
    defect="a gate that is a slice of wider rows is read as if they lay side by side (SGLang 38749)",
    says="the output",
)
def GateOfAWiderRow(own, x, gate, weight, **named):
    if gate is not None and not gate.is_contiguous():
        gate = gate.as_strided(gate.shape, (gate.shape[1], 1))
    return own(x, gate, weight, **named)


@state(
    "state_space",
    defect="a prefill of one request begins with a state of zeros, also where the request goes on: the second chunk"
    " of a long prompt forgets the first (vLLM 22034)",
    says="the output at",
)
def LoneRequestsBeginAnew(own, x, step, a, b, c, d, starts, slots, states):
    if starts is not None and slots.numel() == 1:
        states[slots[slots >= 0].long()] = 0
    return own(x, step, a, b, c, d, starts, slots, states)


@state(
    "state_space",
    defect="a decode advances heads in tiles of 64 rows: of heads of 80 or 96 the rows behind the first tile keep"
    " their state (mamba 1046)",
    says="the state at",
)
def HeadsOfWholeTiles(own, x, step, a, b, c, d, starts, slots, states):
    whole = x.shape[2] // 64 * 64 or x.shape[2]
    before = states[:, :, whole:].clone()
    y = own(x, step, a, b, c, d, starts, slots, states)
    if starts is None:
        states[:, :, whole:] = before
    return y


@state(
    "gated_delta_rule",
    defect="a request's last chunk of less than 64 tokens is filled up, and the state decays over what fills it"
    " (transformers 46873)",
    says="the state at",
)
def PartChunksDecayToTheirEnd(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    answer = own(q, k, v, log_decay, step, starts, slots, states, scale=scale)
    bounds = [] if starts is None else starts.tolist()
    for slot, begin, end in zip(slots.tolist(), bounds, bounds[1:], strict=False):
        if slot >= 0 and (end - begin) % 64:
            decay = torch.exp(log_decay[end - 1].float() * (-(end - begin) % 64))
            states[slot] = (states[slot].float() * decay[:, None, None]).to(states.dtype)
    return answer


@state(
    "gated_delta_rule",
    defect="a decode of the delta rule takes a state for keys by values, where a prefill left values by keys: with as"
    " many of both it is transposed (sgl-kernel-npu 640)",
    says="the output at",
)
def DecodeStateStandsUpright(own, q, k, v, log_decay, step, starts, slots, states, *, scale):
    if starts is None:
        states = states.as_strided(states.shape, (*states.stride()[:-2], 1, states.shape[-2]))
    return own(q, k, v, log_decay, step, starts, slots, states, scale=scale)


@mask(
    defect="beside rows with a grammar, those without one, which allow every token, are taken for rows that allow"
    " none (vllm-gaudi 1199)",
    says="is allowed",
)
def RowsWithoutAGrammar(logits, allowed):
    free = allowed.all(dim=1, keepdim=True)
    taken = allowed & ~free if bool(free.any()) and not bool(free.all()) else allowed
    logits.masked_fill_(~taken, float("-inf"))


@mask(
    defect="a grammar's mask finds rows of logits by the vocabulary's width: of logits that are a slice of wider rows,"
    " as those of a padded vocabulary, other places are masked (xgrammar 359, prime-rl 2710)",
    says="what lies behind the logits",
)
def MaskRowsSideBySide(logits, allowed):
    logits.as_strided(logits.shape, (logits.shape[1], 1)).masked_fill_(~allowed, float("-inf"))
