"""The draft model's beams: the best continuations of one step become the tokens of the next."""

from __future__ import annotations

import torch

__all__ = ["Beams", "next_beams"]

Beams = tuple[
    torch.Tensor, torch.Tensor | None, torch.Tensor, tuple[torch.Tensor, torch.Tensor, torch.Tensor]
]


def next_beams(
    step: int,
    probabilities: torch.Tensor,
    tokens: torch.Tensor,
    hidden: torch.Tensor | None,
    scores: torch.Tensor,
    topk: int,
) -> Beams:
    """Keep the `topk` best of the topk * topk continuations of each request's beams, by the product of their scores.

    `probabilities` and `tokens` [B * topk, topk]: each beam's best next tokens; `scores` [B, topk]: the beams' own;
    `hidden` [B * topk, d] or None. Returns the tokens [B * topk], the hidden states of the beams that they continue,
    their scores [B, topk], and the inputs of the tree: all scores [B, topk, topk], all tokens [B, topk * topk], and the
    kept ones' places among the candidates of all steps [B, topk]. Step 0 has `topk` candidates.
    """
    batch = scores.shape[0]
    grown = scores[:, :, None] * probabilities.view(batch, topk, topk)
    best, place = torch.topk(grown.flatten(1), topk, dim=-1)
    offered = tokens.view(batch, topk * topk)
    if hidden is not None and hidden.shape[0] > 0:
        beams = torch.arange(batch, device=place.device)[:, None] * topk + place // topk
        hidden = hidden[beams.flatten()]
    counted = place + (topk + topk * topk * (step - 1))
    return offered.gather(1, place).flatten(), hidden, best, (grown, offered, counted)
