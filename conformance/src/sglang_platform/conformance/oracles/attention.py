"""Attention in float64 over explicit sequences, with a bound on what a correct kernel may differ by.

The oracle never sees pages, slots or tables. For one request it takes the queries of the new tokens and the keys and
values of all its tokens, in order, and computes for the query at position i::

    s_ij = scale * q_i . k_j,    capped: c * tanh(s_ij / c) where a soft cap c is set
    out_i = sum_j softmax_j(s_ij) v_j    over j <= i, and j >= i - window where a window is set

Error bound. Keys, values and queries are taken as stored, so they are exact. With u the unit roundoff of the
kernel's element type, u32 that of its float32 accumulators, D the head dimension and n the number of keys:

- a score errs by e_ij <= scale * (gamma(D + 2, u32) + u) * sum_d |q_id k_jd| + u |s_ij|: the sum of D products, one
  rounding of a query scaled in the element type, one of a score kept in it. A kernel that keeps float32 errs less.
- the soft cap has slope at most 1, so it does not increase that; its tanh may be a hardware one: + u c.
- a weight then errs relatively by expm1(e_ij + sum_k p_ik e_ik) (first the numerator, then the normalisation), the
  exponentials and their sum by gamma(n + 4, u32), and weights rounded to the element type by 2 u.
- the weighted sum adds gamma(n, u32) of sum_j p_ij |v_j|, and the output is rounded once to the output type.

Sources: Higham, Accuracy and Stability, sections 3.1 and 4.2; Milakov and Gimelshein, arXiv 1805.02867, for softmax
in one pass; the soft cap is Gemma 2's (arXiv 2408.00118).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglang_platform.conformance.oracles.precision import format_of, gamma

__all__ = ["AttentionRule", "Expected", "attention", "worst_element"]

_AT_ONCE = 1 << 22
"""Scores that are held at a time."""


@dataclass(frozen=True)
class AttentionRule:
    """What is computed. `window` counts the positions before a token that it may still see (None: all). `sinks` [Hq]
    adds exp(sink) to the sum of a head's weights (arXiv 2309.17453), as one more key whose value is 0."""

    scale: float
    soft_cap: float = 0.0
    window: int | None = None
    causal: bool = True
    sinks: torch.Tensor | None = None


@dataclass(frozen=True)
class Expected:
    """Float64 `value` and `bound`, same shape: |got - value| <= bound in a correct kernel."""

    value: torch.Tensor
    bound: torch.Tensor


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    rule: AttentionRule,
    *,
    first_position: int,
    dtype: torch.dtype,
    scores_in: torch.dtype | None = None,
    visible: torch.Tensor | None = None,
) -> Expected:
    """One request: q [m, Hq, D] at positions `first_position` on, k [n, Hk, D], v [n, Hk, Dv] -> [m, Hq, Dv].

    Query head h reads key head h // (Hq / Hk). All inputs on the CPU, in any float dtype; `dtype` is the element type
    the kernel works and answers in; `scores_in` is the one of its scores, where they may not be rounded to `dtype`.
    `visible`, bool [m, n]: which tokens each query sees, where that is not by the rule. MLA in its absorbed form is
    Hk = 1 with v the first columns of k.
    """
    m, q_heads, dim = q.shape
    n, kv_heads, _ = k.shape
    most = max(1, _AT_ONCE // max(1, n * q_heads))
    if m > most:
        parts = [
            attention(
                q[at : at + most],
                k,
                v,
                rule,
                first_position=first_position + at,
                dtype=dtype,
                scores_in=scores_in,
                visible=None if visible is None else visible[at : at + most],
            )
            for at in range(0, m, most)
        ]
        return Expected(torch.cat([part.value for part in parts]), torch.cat([part.bound for part in parts]))
    q, k, v = q.double(), k.double(), v.double()
    # The query heads of one key head side by side: no key is repeated.
    grouped = q.unflatten(1, (kv_heads, q_heads // kv_heads))

    scores = rule.scale * torch.einsum("ikgd,jkd->kgij", grouped, k).flatten(0, 1)
    absolute = abs(rule.scale) * torch.einsum("ikgd,jkd->kgij", grouped.abs(), k.abs()).flatten(0, 1)
    u, u32 = format_of(dtype).unit_roundoff, format_of(torch.float32).unit_roundoff
    u_scores = format_of(scores_in or dtype).unit_roundoff
    error = (gamma(dim + 2, u32) + u_scores) * absolute + u_scores * scores.abs()
    if rule.soft_cap:
        scores = rule.soft_cap * torch.tanh(scores / rule.soft_cap)
        error = error + u_scores * rule.soft_cap

    visible = _visible(m, n, first_position, rule) if visible is None else visible
    scores = scores.masked_fill(~visible, float("-inf"))
    if rule.sinks is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        extra = rule.sinks.double().reshape(q_heads, 1, 1).expand(q_heads, m, 1)
        weights = torch.softmax(torch.cat((scores, extra), dim=-1), dim=-1)[..., :n]
        error = error + u_scores * extra.abs()
    value = _weighted(weights, v)

    in_weights = torch.expm1(error + (weights * error).sum(-1, keepdim=True)) + gamma(n + 4, u32) + 2 * u
    spread = _weighted(weights * (in_weights + gamma(n, u32)), v.abs())
    output = format_of(dtype)
    bound = spread + output.unit_roundoff * (value.abs() + spread) + output.spacing_of_subnormals
    return Expected(value, bound)


def _weighted(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """weights [Hq, m, n], v [n, Hk, Dv] -> [m, Hq, Dv]."""
    grouped = weights.unflatten(0, (v.shape[1], -1))
    return torch.einsum("kgij,jkd->ikgd", grouped, v).flatten(1, 2)


def _visible(m: int, n: int, first_position: int, rule: AttentionRule) -> torch.Tensor:
    """[m, n]: whether the query in row i may see key j."""
    query = torch.arange(first_position, first_position + m)[:, None]
    key = torch.arange(n)[None, :]
    visible = (key <= query) if rule.causal else torch.ones(m, n, dtype=torch.bool)
    if rule.window is not None:
        visible = visible & (key >= query - rule.window)
    return visible


def worst_element(got: torch.Tensor, expected: Expected) -> tuple[float, tuple[int, ...]]:
    """The largest |got - value| / bound and where it is; infinite where `got` is not finite. At most 1 is correct."""
    ratio = (got.double() - expected.value).abs() / expected.bound
    ratio = torch.where(torch.isfinite(got.double()), ratio, torch.full_like(ratio, float("inf")))
    if ratio.numel() == 0:
        return 0.0, ()
    flat = int(ratio.argmax())
    where: list[int] = []
    for length in reversed(ratio.shape):
        flat, index = divmod(flat, length)
        where.append(index)
    return float(ratio.max()), tuple(reversed(where))
