"""The fused ops in float64, each with the bound that a correct kernel keeps.

Every op is elementwise except for one reduction over a row of H values, done in float32 (u32) by a correct kernel;
inputs are exact as given, outputs are rounded to the element type (u). A kernel may round once between two steps to
the element type (the usual place is before the weight is multiplied), hence the factors of 2 u below.
"""

from __future__ import annotations

import torch

from sglang_platform.conformance.oracles.attention import Expected
from sglang_platform.conformance.oracles.precision import format_of, gamma

__all__ = [
    "bound_of",
    "fused_add_rms_norm",
    "moe_experts",
    "per_token_fp8",
    "rms_norm",
    "rotary_embedding",
    "silu_and_mul",
]

_U32 = format_of(torch.float32).unit_roundoff


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    *,
    columns: int | None = None,
    dtype: torch.dtype | None = None,
) -> Expected:
    """x [.., H] / sqrt(mean(x^2) + epsilon) * weight [H] (Zhang and Sennrich, arXiv 1910.07467), rounded to `dtype`,
    that of x where none is given. `columns`: the mean is of the first of them; None: of all.

    All terms of the mean are positive, so it errs relatively by gamma(H + 2, u32), its root by half of that; then
    two products, one rounding between them and one of the result.
    """
    dtype = dtype or x.dtype
    x, weight = x.double(), weight.double()
    root = torch.sqrt((x * x)[..., :columns].mean(-1, keepdim=True) + epsilon)
    value = x / root * weight
    u = format_of(dtype).unit_roundoff
    relative = gamma(x.shape[-1] + 2, _U32) / 2 + gamma(6, _U32) + 2 * u
    return Expected(value, bound_of(value, relative, dtype, between=weight.abs()))


def fused_add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    *,
    addition: torch.Tensor | None = None,
    kept: torch.dtype | None = None,
) -> tuple[Expected, Expected]:
    """(normalised, new residual) of x + residual + addition; all [.., H]. The new residual is of type `kept`, that of x
    where none is given.

    The sum may be normalised before or after it is rounded to the element type: one more u, relative to the sum.
    Through the mean that is at most another u. Residual and addition may be added, and rounded, first: that errs by
    e = u |residual + addition|, which reaches the result itself and through the mean, relatively by at most
    sqrt(mean(e^2)) over the root.
    """
    dtype = x.dtype
    u = format_of(dtype).unit_roundoff
    more = torch.zeros_like(x, dtype=torch.float64) if addition is None else addition.double()
    early = (residual.double() + more).abs() * (u if addition is not None else 0.0)
    total = x.double() + residual.double() + more
    normalised = rms_norm(total, weight, epsilon).value
    relative = gamma(x.shape[-1] + 2, _U32) / 2 + gamma(6, _U32) + 4 * u
    bound = bound_of(normalised, relative, dtype, between=weight.double().abs())
    root = torch.sqrt((total * total).mean(-1, keepdim=True) + epsilon)
    through = early.square().mean(-1, keepdim=True).sqrt() / root
    bound = bound + 1.1 * (weight.double().abs() * early / root + normalised.abs() * through)
    kept = kept or dtype
    rounding = format_of(kept).unit_roundoff + _U32
    return Expected(normalised, bound), Expected(total, bound_of(total, rounding, kept) + early)


def silu_and_mul(x: torch.Tensor) -> Expected:
    """x [.., 2 I] -> a * b with a = x[.., :I] / (1 + exp(-x[.., :I])), b = x[.., I:] (Shazeer, arXiv 2002.05202).

    The exponential errs by a few u32 and by |x| u32 where its argument is rounded; one rounding between the two. Many
    devices take the sigmoid from 1 + tanh(x / 2), which errs absolutely: a few u32 of |a b|.
    """
    dtype = x.dtype
    gate, up = x.double().chunk(2, dim=-1)
    value = gate * torch.sigmoid(gate) * up
    u = format_of(dtype).unit_roundoff
    relative = (gate.abs() + 8) * _U32 + 2 * u
    return Expected(value, bound_of(value, relative, dtype, between=up.abs()) + 8 * _U32 * (gate * up).abs())


def rotary_embedding(
    positions: torch.Tensor, x: torch.Tensor, head_size: int, cos_sin: torch.Tensor, neox: bool
) -> Expected:
    """x [T, heads * head_size] rotated by `cos_sin` [positions, rotary_dim] (cosines, then sines), Su et al.,
    arXiv 2104.09864.

    The pair (a, b) becomes (a cos - b sin, b cos + a sin); pairs are (i, i + rotary_dim / 2) in the neox style and
    (2 i, 2 i + 1) in the gptj style; what lies behind rotary_dim stays. Each output is a sum of two products with the
    cosine and sine rounded to the element type at most: 4 u of |a| + |b|.
    """
    dtype = x.dtype
    tokens = positions.numel()
    heads = x.double().reshape(tokens, x.shape[-1] // head_size, head_size)
    half = cos_sin.shape[-1] // 2
    cos, sin = cos_sin.double()[positions.reshape(-1).long()][:, None, :].split(half, dim=-1)
    value, size = heads.clone(), torch.zeros_like(heads)
    first, second = (
        (slice(0, half), slice(half, 2 * half)) if neox else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    )
    a, b = heads[..., first], heads[..., second]
    value[..., first] = a * cos - b * sin
    value[..., second] = b * cos + a * sin
    size[..., first] = size[..., second] = a.abs() + b.abs()
    u = format_of(dtype).unit_roundoff
    bound = 4 * u * size + 3 * format_of(dtype).spacing_of_subnormals
    return Expected(value.reshape(x.shape), bound.reshape(x.shape))


def per_token_fp8(x: torch.Tensor, dtype: torch.dtype) -> tuple[Expected, Expected]:
    """(dequantised x, scales [.., 1]) of quantising each row of x [.., H] with one scale.

    The scale is max |x| / largest fp8 of the row, computed in float32. A dequantised value may differ from x by one
    rounding to fp8, u8 |x| in its normal range and half the smallest subnormal times the scale below, plus a tie that
    falls the other way because of the scale's own rounding: gamma(4, u32).
    """
    x = x.double()
    fp8 = format_of(dtype)
    scale = x.abs().amax(-1, keepdim=True) / fp8.largest
    error = (fp8.unit_roundoff + gamma(4, _U32)) * x.abs() + scale * fp8.spacing_of_subnormals / 2 * (
        1 + _U32
    )
    return Expected(x, error), Expected(scale, gamma(4, _U32) * scale + 2.0**-149)


def moe_experts(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    weight_on_input: bool = False,
    activation: str = "silu",
    gated: bool = True,
    biases: tuple[torch.Tensor, torch.Tensor] | None = None,
    clamped: tuple[float, float, float] | None = None,
    in_turn: bool = False,
) -> Expected:
    """SwiGLU experts: x [T, H], w13 [E, 2 I, H], w2 [E, H, I], topk_* [T, K] -> [T, H]. Without a gate w13 is [E, I,
    H]. `activation`: silu, or gelu in any of its forms; `biases`: of both products, [E, 2 I] and [E, H]. An expert
    below 0 is another rank's and adds nothing. `clamped`: gpt-oss's alpha and limits, of g sigmoid(alpha g) (u + 1)
    with g at most the first and u within the second; `in_turn`: gate and up rows alternate.

    sum_k weight_k * w2_e (silu(g) * u) with (g, u) = w13_e x and e = topk_ids[.., k]. Every step may be kept in the
    element type. With a = |w13| |x|, the gate errs by (gamma(H, u32) + u) a_g, silu and gelu have slopes of at most
    1.13 and |silu(g)| <= |g|; so h = silu(g) u errs by (gamma(H, u32) + 2 u) * 1.13 (a_g |u| + |g| a_u) + 2 u |h|, and
    the second product adds gamma(I + K, u32) + 3 u of |weight| |w2| |h|. The forms of gelu differ by up to 5e-4.
    """
    dtype = x.dtype
    u = format_of(dtype).unit_roundoff
    x, w13, w2 = x.double(), w13.double(), w2.double()
    value, error = torch.zeros_like(x), torch.zeros_like(x)
    hidden, inner = x.shape[1], w2.shape[2]
    forms = 5e-4 if activation == "gelu" else 0.0
    for expert in topk_ids[topk_ids >= 0].unique().tolist():
        tokens, place = torch.nonzero(topk_ids == expert, as_tuple=True)
        rows, weights = x[tokens], topk_weights[tokens, place].double()[:, None]
        if weight_on_input:
            rows, weights = rows * weights, torch.ones_like(weights)
        first, size = rows @ w13[expert].T, rows.abs() @ w13[expert].abs().T
        second_bias = torch.zeros(hidden, dtype=torch.float64)
        if biases is not None:
            first, size = first + biases[0][expert].double(), size + biases[0][expert].double().abs()
            second_bias = biases[1][expert].double()
        gate, up = _halves(first, in_turn) if gated else (first, torch.ones_like(first))
        gate_size, up_size = _halves(size, in_turn) if gated else (size, torch.zeros_like(size))
        if clamped is not None:
            alpha, most, limit = clamped
            gate, up = gate.clamp(max=most), up.clamp(-limit, limit) + 1
            h = gate * torch.sigmoid(alpha * gate) * up
        else:
            h = _activated(gate, activation) * up
        spread = 1.13 * (gate_size * up.abs() + gate.abs() * up_size)
        h_error = (gamma(hidden, _U32) + 3 * u) * spread + (2 * u + 8 * _U32) * h.abs() + forms * up.abs()
        h_error = h_error + format_of(dtype).spacing_of_subnormals * (1 + gate.abs() + up.abs())
        value.index_add_(0, tokens, weights * (h @ w2[expert].T + second_bias))
        second = (gamma(inner + topk_ids.shape[1], _U32) + 3 * u) * (
            (h.abs() + h_error) @ w2[expert].abs().T + second_bias.abs()
        )
        error.index_add_(0, tokens, weights.abs() * (h_error @ w2[expert].abs().T + second))
    output = format_of(dtype)
    return Expected(value, error + output.unit_roundoff * value.abs() + output.spacing_of_subnormals)


def _halves(rows: torch.Tensor, in_turn: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if in_turn:
        return rows[:, ::2], rows[:, 1::2]
    gate, up = rows.chunk(2, 1)
    return gate, up


def _activated(gate: torch.Tensor, activation: str) -> torch.Tensor:
    return gate * torch.sigmoid(gate) if activation == "silu" else torch.nn.functional.gelu(gate)


def bound_of(
    value: torch.Tensor,
    relative: torch.Tensor | float,
    dtype: torch.dtype,
    between: torch.Tensor | float = 0.0,
) -> torch.Tensor:
    """`relative` error of the value, and one rounding to `dtype` at the end. `between` is what a number that was
    rounded to `dtype` half way is multiplied by: below the normal range that rounding errs by a fixed amount."""
    output = format_of(dtype)
    error = value.abs() * relative + between * output.spacing_of_subnormals / 2
    return error + output.unit_roundoff * (value.abs() + error) + output.spacing_of_subnormals
