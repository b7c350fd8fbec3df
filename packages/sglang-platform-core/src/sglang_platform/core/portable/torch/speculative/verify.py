"""Verification: which draft tokens the target model would have chosen itself.

Greedy: along the tree, a child is accepted while it is the target's most likely token. Sampled: a token is drawn from
the target's distribution at every node, and a child is accepted while it is the token drawn at its parent. Each node on
the accepted path used a draw of its own, so the text is distributed as the target model's (SpecInfer's "naive"
sampling; Leviathan et al., 2023, call the result lossless).
"""

from __future__ import annotations

import torch

from sglang_platform.core.portable.torch.speculative.tree import TreeLinks

__all__ = ["accept", "draw", "keep_top_k", "keep_top_p"]


def accept(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_count: torch.Tensor,
    candidates: torch.Tensor,
    links: TreeLinks,
    chosen: torch.Tensor,
) -> None:
    """Walk each tree from node 0 while a child is the token that was chosen at its parent. Writes the first three
    arguments.

    `candidates` [B, n] the nodes' tokens, `chosen` [B, n] the target's token after each node. `accept_index` [B, s]
    gets the accepted nodes in order, counted over all requests, -1 behind them; `accept_count` [B] how many of them are
    draft tokens; `predicts` [B * n] the token that follows each accepted node. At most s - 1 drafts are accepted.
    """
    batch, n = candidates.shape
    parents = _parents(links)
    offset = torch.arange(batch, device=candidates.device)[:, None] * n
    at = torch.zeros((batch, 1), dtype=torch.int64, device=candidates.device)
    on_the_way = torch.ones((batch, 1), dtype=torch.bool, device=candidates.device)
    path, taken = [at + offset], [on_the_way]
    for _ in range(accept_index.shape[1] - 1):
        fits = (parents == at) & (candidates == chosen.gather(1, at))
        on_the_way = on_the_way & fits.any(1, keepdim=True)
        at = torch.where(on_the_way, fits.int().argmax(1, keepdim=True), at)
        path.append(at + offset)
        taken.append(on_the_way)
    nodes, reached = torch.cat(path, 1), torch.cat(taken, 1)
    accept_index.copy_(torch.where(reached, nodes, torch.full_like(nodes, -1)))
    accept_count.copy_(reached.sum(1) - 1)
    # After the end of a path its last node is repeated, which writes the same value again.
    predicts[nodes.flatten()] = chosen.flatten()[nodes.flatten()].to(predicts.dtype)


def draw(probabilities: torch.Tensor, coins: torch.Tensor) -> torch.Tensor:
    """A token for every node, int64 [B, n], by its cumulative distribution: `probabilities` [B, n, vocabulary] that
    sum to 1, `coins` float [B, n] in [0, 1)."""
    cumulative = probabilities.float().cumsum(-1)
    threshold = coins.float()[..., None] * cumulative[..., -1:]
    tokens = (cumulative <= threshold).sum(-1)
    # Rounding may carry a coin past the last token with a probability above 0.
    last = (
        (probabilities > 0)
        .long()
        .mul(torch.arange(probabilities.shape[-1], device=probabilities.device))
        .amax(-1)
    )
    return torch.minimum(tokens, last)


def keep_top_k(probabilities: torch.Tensor, top_k: torch.Tensor | int) -> torch.Tensor:
    """The `top_k` (of all rows, or [rows]) largest of each row of [rows, vocabulary], and those equal to the last of
    them, made to sum to 1 again."""
    rows, vocabulary = probabilities.shape
    k = torch.as_tensor(top_k, device=probabilities.device).long().clamp(1, vocabulary)
    least = probabilities.sort(-1, descending=True).values.gather(1, k.view(-1, 1).expand(rows, 1) - 1)
    return _normalised(probabilities.masked_fill(probabilities < least, 0.0))


def keep_top_p(probabilities: torch.Tensor, top_p: torch.Tensor | float) -> torch.Tensor:
    """The fewest largest of each row [rows, vocabulary], at least one, that reach `top_p` (of all rows, or [rows])
    together, made to sum to 1 again."""
    ordered = probabilities.sort(-1, descending=True)
    before = ordered.values.cumsum(-1) - ordered.values
    dropped = before >= torch.as_tensor(top_p, device=probabilities.device).view(-1, 1)
    dropped[:, 0] = False
    kept = ordered.values.masked_fill(dropped, 0.0)
    return _normalised(torch.zeros_like(probabilities).scatter_(1, ordered.indices, kept))


def _normalised(rows: torch.Tensor) -> torch.Tensor:
    return rows / rows.sum(-1, keepdim=True)


def _parents(links: TreeLinks) -> torch.Tensor:
    """int64 [B, n], from first children and next siblings; -1 for node 0 and for nodes that no link reaches."""
    first_child, next_sibling = links
    batch, n = first_child.shape
    nodes = torch.arange(n, device=first_child.device).expand(batch, n)
    parents = torch.full((batch, n + 1), -1, dtype=torch.int64, device=first_child.device)
    parents.scatter_(1, torch.where(first_child < 0, n, first_child), nodes)
    for node in range(n - 1):  # siblings come later than the node that names them
        later = next_sibling[:, node : node + 1]
        parents.scatter_(1, torch.where(later < 0, n, later), parents[:, node : node + 1].clone())
    return parents[:, :n]
