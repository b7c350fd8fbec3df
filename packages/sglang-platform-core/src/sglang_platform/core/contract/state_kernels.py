"""The kernels of layers that keep a state per request: what `SRTPlatform.get_state_kernels()` may answer, by name.

Common to all. The tokens of a step stand one after the other, [T, ...]; request r owns those from `starts[r]` to
`starts[r + 1]` (int32 [N + 1]), and the slot `slots[r]` (int32 or int64 [N]) of the pool `states` [S, ...], which the
kernel updates in place, computing in float32 whatever the pool's type. Without `starts` (None) each request has one
token, T is N, and the call must be capturable in a graph: no value of a tensor is read on the host. A negative slot is
padding: its output is zero and no slot is written for it. Slots of other requests never change. Tokens that belong to
no request come out as zero (or, where nothing mixes tokens, as anything).

`short_convolution(x, weight, bias, starts, slots, resumes, states, *, silu) -> y`
    y_t = sum_j weight[:, j] x_{t - W + 1 + j} + bias, then silu where asked for. x, y: [T, C]. weight: [C, W]. bias:
    [C] or None. states: [S, C, L] with L >= W - 1, the newest input last. resumes: bool [N], where False the inputs
    before the first token are zero and not those of the state; None is True for all.

`gated_delta_gates(a, b, decay_log, bias) -> (log_decay, step)`
    -exp(decay_log) softplus(a + bias), and sigmoid(b). a, b: [T, heads]. decay_log, bias: [heads]. Answers: float32
    [T, heads].

`gated_delta_rule(q, k, v, log_decay, step, starts, slots, states, *, scale) -> (y, before)`
    S = exp(log_decay) S (I - step k k^T) + step v k^T and y = scale S q, with q and k brought to length one first,
    zeros but left as they are (Gated Delta Networks, Yang et al. 2024). q, k: [T, H, K]. v, y: [T, HV, V], value head
    h with key head h // (HV / H). log_decay, step: float32 [T, HV]. states: [S, HV, V, K]. before: the states before
    each chunk of 64 tokens of each request, [chunks, HV, V, K]; None without `starts`.

`state_space(x, step, a, b, c, d, starts, slots, states) -> y`
    h = exp(step a) h + step x b^T and y = h c + d x (Mamba-2, Dao and Gu 2024). x, y: [T, H, P]. step: float32 [T, H],
    softplus applied. a: float32 [H], negative. b, c: [T, G, N], head h with group h // (H / G). d: [H] or None.
    states: [S, H, P, N].

`gated_rms_norm(x, gate, weight, *, epsilon, activation, group_size, gate_first) -> y`
    The norm over each group of `group_size` values (None: all) times weight, times act(gate); with `gate_first` the
    norm of x act(gate) instead. x, gate, y: [R, D]; gate may be None. weight: [D] or None. activation: silu, swish or
    sigmoid.
"""

from __future__ import annotations

__all__ = ["STATE_KERNELS"]

STATE_KERNELS = (
    "short_convolution",
    "gated_delta_gates",
    "gated_delta_rule",
    "state_space",
    "gated_rms_norm",
)
