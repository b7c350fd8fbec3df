"""The kernels of layers that keep a state, one token after another, in float64: the oracle of `get_state_kernels()`.

Names and arguments are those of `core.contract.state_kernels`. Nothing is updated in place: each answers with its
output and with the states after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

__all__ = ["convolution", "delta_rule", "gated_norm", "gates", "state_space"]

Tensor = torch.Tensor
CHUNK = 64


def _requests(starts: Tensor | None, slots: Tensor) -> Iterator[tuple[int, int, range]]:
    """(request, slot, its tokens)."""
    for request, slot in enumerate(slots.tolist()):
        first, last = (request, request + 1) if starts is None else starts[request : request + 2].tolist()
        yield request, slot, range(first, last)


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    starts: Tensor | None,
    slots: Tensor,
    resumes: Tensor | None,
    states: Tensor,
    silu: bool,
) -> tuple[Tensor, Tensor]:
    """x: [T, C]. weight: [C, W]. states: [S, C, L], the newest input last."""
    out, after = torch.zeros_like(x, dtype=torch.float64), states.double().clone()
    width = weight.shape[1]
    for request, slot, tokens in _requests(starts, slots):
        if slot < 0:
            continue
        fresh = resumes is not None and not bool(resumes[request])
        window = torch.zeros_like(after[slot]) if fresh else after[slot].clone()
        for token in tokens:
            window = torch.cat((window, x[token].double()[:, None]), dim=1)
            y = (window[:, -width:] * weight.double()).sum(1)
            if bias is not None:
                y = y + bias.double()
            out[token] = y * torch.sigmoid(y) if silu else y
        if len(tokens):
            after[slot] = window[:, -after.shape[2] :]
    return out, after


def gates(a: Tensor, b: Tensor, decay_log: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """a, b: [T, heads]."""
    soft = torch.nn.functional.softplus(a.double() + bias.double())
    return -torch.exp(decay_log.double()) * soft, torch.sigmoid(b.double())


def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    step: Tensor,
    starts: Tensor | None,
    slots: Tensor,
    states: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """q, k: [T, H, K]. v: [T, HV, V]. states: [S, HV, V, K]. Output, the states before each chunk, the states after."""
    q, k, v = (one.double() for one in (q, k, v))
    q, k = (one / one.norm(dim=-1, keepdim=True).clamp(min=1e-30) for one in (q, k))
    each = v.shape[1] // k.shape[1]
    q, k = (one.repeat_interleave(each, dim=1) for one in (q, k))
    out, after, before = torch.zeros_like(v), states.double().clone(), []
    for _, slot, tokens in _requests(starts, slots):
        if slot < 0:
            continue
        state = after[slot]  # [HV, V, K]
        for number, token in enumerate(tokens):
            if number % CHUNK == 0:
                before.append(state.clone())
            decay, beta = log_decay[token].double().exp(), step[token].double()
            state = state * decay[:, None, None]
            predicted = torch.einsum("hvk,hk->hv", state, k[token])
            change = beta[:, None] * (v[token] - predicted)
            state = state + torch.einsum("hv,hk->hvk", change, k[token])
            out[token] = scale * torch.einsum("hvk,hk->hv", state, q[token])
        after[slot] = state
    return out, torch.stack(before) if starts is not None and before else None, after


def state_space(
    x: Tensor,
    step: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor | None,
    starts: Tensor | None,
    slots: Tensor,
    states: Tensor,
) -> tuple[Tensor, Tensor]:
    """x: [T, H, P]. b, c: [T, G, N]. states: [S, H, P, N]."""
    each = x.shape[1] // b.shape[1]
    b, c = (one.double().repeat_interleave(each, dim=1) for one in (b, c))
    out, after = torch.zeros_like(x, dtype=torch.float64), states.double().clone()
    for _, slot, tokens in _requests(starts, slots):
        if slot < 0:
            continue
        state = after[slot]
        for token in tokens:
            dt, xs = step[token].double(), x[token].double()
            state = torch.exp(dt * a.double())[:, None, None] * state
            state = state + torch.einsum("h,hp,hn->hpn", dt, xs, b[token])
            y = torch.einsum("hpn,hn->hp", state, c[token])
            out[token] = y if d is None else y + d.double()[:, None] * xs
        after[slot] = state
    return out, after


def gated_norm(
    x: Tensor,
    gate: Tensor | None,
    weight: Tensor | None,
    epsilon: float,
    activation: str,
    group_size: int | None,
    gate_first: bool,
) -> Tensor:
    """x, gate: [R, D]."""
    values = x.double()
    by = None
    if gate is not None:
        by = torch.sigmoid(gate.double()) * (1 if activation == "sigmoid" else gate.double())
    if by is not None and gate_first:
        values = values * by
    groups = values.reshape(len(values), -1, group_size or values.shape[1])
    values = (groups / (groups.pow(2).mean(-1, keepdim=True) + epsilon).sqrt()).reshape(values.shape)
    if weight is not None:
        values = values * weight.double()
    return values if by is None or gate_first else values * by
