"""What Ember computes. A vendor's own kernels stand here; these are plain torch and know nothing of SGLang."""

from __future__ import annotations

import torch


def store_rows(buffer: torch.Tensor, slots: torch.Tensor, rows: torch.Tensor) -> None:
    """`buffer` [S, H, D] at `slots` [T] becomes `rows` [T, H, D]."""
    buffer.index_copy_(0, slots, rows.to(buffer.dtype))


def paged_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: list[torch.Tensor],
    new_tokens: list[int],
    scaling: float,
) -> torch.Tensor:
    """Causal attention of each request's newest tokens over all of its tokens, read from their slots.

    `query` [T, Hq, D], the new tokens of all requests one after the other; `keys` [S, Hk, D] and `values` [S, Hk, Dv]
    are a layer's cache; `slots` has int64 [length] for each request, `new_tokens` how many of them are new.
    Returns [T, Hq, Dv]. The sums are float32.
    """
    answers = []
    for one, rows in zip(query.split(new_tokens), slots, strict=True):
        length, new = rows.shape[0], one.shape[0]
        group = query.shape[1] // keys.shape[1]
        k = keys[rows].repeat_interleave(group, 1).float()
        v = values[rows].repeat_interleave(group, 1).float()
        scores = torch.einsum("qhd,khd->hqk", one.float(), k) * scaling
        unseen = torch.ones(new, length, dtype=torch.bool).triu(length - new + 1)
        weights = scores.masked_fill(unseen, float("-inf")).softmax(-1)
        answers.append(torch.einsum("hqk,khd->qhd", weights, v).to(query.dtype))
    return torch.cat(answers)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """`x` [.., H] over the root of its mean square, times `weight` [H]."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * weight.float()).to(x.dtype)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """`x` [.., 2 I] -> silu of the first half times the second."""
    gate, up = x.float().chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up).to(x.dtype)
