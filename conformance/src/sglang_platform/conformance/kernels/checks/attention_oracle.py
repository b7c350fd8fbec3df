"""Attention of one request in float64, with a bound on what a correct kernel may differ by.

The oracle sees plain sequences: queries of the new tokens, keys and values of all tokens in order. For the query at
position i and key j, with every rule that the kernels know::

    s_ij = scale * k_scale * q_i . k_j,   capped: c tanh(s_ij / c)
    out_i = v_scale * sum_j p_ij v_j,     p_ij = e^s_ij / (sum_k e^s_ik + e^sink)

Error bound. Inputs are taken as stored, so they are exact; 8-bit codes widen exactly. With u the unit roundoff of the
type that the products are made in, u32 that of float32, D the columns of a head and n the number of keys:

- a score is a float32 sum of D exact products, then scaled: e_ij <= gamma(D + 4, u32) |scale k_scale| sum_d |q k|_d.
  Where keys are rounded to the query's type after unpacking, + u of the same sum. It is then subtracted from a maximum
  and exponentiated in float32, its argument off by 2 u32 (|s_ij| + max_k |s_ik|).
- the soft cap has slope at most 1; its tanh comes from one exponential, a sum and a quotient: + 8 u32 c.
- a weight then errs relatively by expm1(e_ij + sum_k p_ik e_ik), first the numerator, then the normalisation; by
  gamma(2 n + 16, u32) for the sum of exponentials with its rescaling at every block and split; and by u where it is
  rounded for the second product. Weights below the normal range of that type lose up to its subnormal spacing.
- the weighted sum is a float32 one: gamma(2 n + 16, u32) of sum_j p_ij |v_j|. The output is rounded once.

Sources: Higham, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 4.2; arXiv 1805.02867.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglang_platform.conformance.oracles.precision import format_of, gamma

__all__ = ["Rule", "attention"]


@dataclass(frozen=True)
class Rule:
    """window: how many earlier positions are seen, -1 for all. sinks float [Hq]. `rounds_keys`: the kernel rounds
    unpacked keys and values to the query's type."""

    scale: float
    logit_cap: float = 0.0
    window: int = -1
    causal: bool = True
    sinks: torch.Tensor | None = None
    k_scale: float = 1.0
    v_scale: float = 1.0
    rounds_keys: bool = False


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, first_position: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """q [m, Hq, D] at positions `first_position` on, k [n, Hk, D], v [n, Hk, Dv] -> value and bound [m, Hq, Dv].

    `dtype` is that of q and out.
    """
    m, q_heads, dim = q.shape
    n, kv_heads, _ = k.shape
    q = q.double()
    k, v = (x.double().repeat_interleave(q_heads // kv_heads, dim=1) for x in (k, v))
    if n == 0:
        zero = torch.zeros(m, q_heads, v.shape[2], dtype=torch.float64)
        return zero, zero
    factor = rule.scale * rule.k_scale
    scores = factor * torch.einsum("ihd,jhd->hij", q, k)
    absolute = abs(factor) * torch.einsum("ihd,jhd->hij", q.abs(), k.abs())
    element, single = format_of(dtype), format_of(torch.float32)
    u, u32 = element.unit_roundoff, single.unit_roundoff
    error = (gamma(dim + 4, u32) + (u if rule.rounds_keys else 0.0)) * absolute
    if rule.logit_cap:
        scores = rule.logit_cap * torch.tanh(scores / rule.logit_cap)
        error = error + 8 * u32 * rule.logit_cap
    seen = _seen(m, n, first_position, rule)
    scores = scores.masked_fill(~seen, float("-inf"))
    largest = scores.masked_fill(~seen, 0.0).abs().amax(-1, keepdim=True)
    error = (error + 2 * u32 * (scores.masked_fill(~seen, 0.0).abs() + largest)) * seen
    logits = scores
    if rule.sinks is not None:
        sink = rule.sinks.double().reshape(-1, 1, 1).expand(-1, m, 1)
        logits = torch.cat((scores, sink), -1)
        error_of_sink = 2 * u32 * sink.abs()
    else:
        error_of_sink = torch.zeros(1, dtype=torch.float64)
    weights = torch.softmax(logits, -1)
    weights = weights[..., :n] if rule.sinks is not None else weights
    value = rule.v_scale * torch.einsum("hij,jhd->ihd", weights, v)

    sums = gamma(2 * n + 16, u32)
    relative = torch.expm1(error + (weights * error).sum(-1, keepdim=True) + error_of_sink) + sums
    relative = relative + u * (2 if rule.rounds_keys else 1)
    lost = element.spacing_of_subnormals * seen
    spread = abs(rule.v_scale) * torch.einsum("hij,jhd->ihd", weights * (relative + sums) + lost, v.abs())
    bound = spread + element.unit_roundoff * (value.abs() + spread) + element.spacing_of_subnormals
    return value, bound


def _seen(m: int, n: int, first_position: int, rule: Rule) -> torch.Tensor:
    query = torch.arange(first_position, first_position + m)[:, None]
    key = torch.arange(n)[None, :]
    seen = key <= query if rule.causal else torch.ones(m, n, dtype=torch.bool)
    return seen & (key >= query - rule.window) if rule.window >= 0 else seen
