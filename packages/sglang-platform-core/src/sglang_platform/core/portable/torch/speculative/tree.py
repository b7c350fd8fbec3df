"""The tree of draft tokens: built from the draft model's scores, or read back from its mask.

Each request has `n` nodes. Node 0 is the last token of the target model; the parent of every other node is an earlier
node. The tree attention of SpecInfer (Miao et al., 2023) and EAGLE (Li et al., 2024) lets a node see the prefix, its
ancestors and itself.
"""

from __future__ import annotations

import torch

__all__ = [
    "TreeLinks",
    "ancestors_of",
    "build_tree",
    "links_of",
    "parents_in_mask",
    "parents_of_scores",
    "read_tree",
]

TreeLinks = tuple[torch.Tensor, torch.Tensor]
"""For each node the first of its children and the next node under the same parent, int64 [B, n] each; -1: none."""


def parents_of_scores(parent_list: torch.Tensor, selected: torch.Tensor, topk: int) -> torch.Tensor:
    """The parent node of every node, int64 [B, n]; -1 for node 0 and for a node whose parent was not selected.

    `selected` int64 [B, n - 1], ascending: which candidates became nodes 1 to n - 1, counted over the draft steps;
    each group of `topk` of them hangs under one candidate. `parent_list` int64 [B, groups] names that candidate by
    its own count; group 0 hangs under node 0.
    """
    batch, others = selected.shape
    group = selected.long() // topk
    under_root = group == 0
    if parent_list.shape[1] == 0:
        parents = torch.zeros_like(group)
    else:
        candidate = parent_list.long().gather(1, group.clamp(max=parent_list.shape[1] - 1))
        same = selected[:, None, :].long() == candidate[:, :, None]
        place = same.int().argmax(-1) + 1
        unknown = torch.full_like(place, -1)
        parents = torch.where(under_root, torch.zeros_like(place), torch.where(same.any(-1), place, unknown))
    root = torch.full((batch, 1), -1, dtype=torch.int64, device=selected.device)
    return torch.cat((root, parents.long()), dim=1) if others else root


def parents_in_mask(mask: torch.Tensor) -> torch.Tensor:
    """The parent of every node, int64 [B, n], from `mask` bool [B, n, n]: the nearest node before it that it sees."""
    nodes = torch.arange(mask.shape[-1], device=mask.device)
    before = mask & (nodes < nodes[:, None])
    return torch.where(before, nodes, torch.full_like(nodes, -1)).amax(-1)


def ancestors_of(parents: torch.Tensor, depth: int) -> torch.Tensor:
    """The attention mask of the nodes, bool [B, n, n]: each node sees itself and its ancestors. No node is deeper than
    `depth`."""
    batch, n = parents.shape
    sees = torch.eye(n, dtype=torch.bool, device=parents.device).expand(batch, n, n).clone()
    at = torch.arange(n, device=parents.device).expand(batch, n)
    for _ in range(min(depth, n - 1)):
        at = torch.where(at > 0, parents.gather(1, at.clamp(min=0)), torch.full_like(at, -1))
        step = torch.arange(n, device=parents.device) == at[:, :, None]
        sees |= step
    # A node whose parent was not selected still sees node 0.
    sees[:, :, 0] = True
    return sees


def links_of(parents: torch.Tensor) -> TreeLinks:
    """First child and next sibling of every node, from the parents int64 [B, n]."""
    n = parents.shape[1]
    nodes = torch.arange(n, device=parents.device)
    none = torch.full_like(nodes, n)
    child = parents[:, None, :] == nodes[None, :, None]
    first_child = torch.where(child, nodes, none).amin(-1)
    siblings = (
        (parents[:, None, :] == parents[:, :, None]) & (nodes > nodes[:, None]) & (parents >= 0)[:, :, None]
    )
    next_sibling = torch.where(siblings, nodes, none).amin(-1)
    return _or_none(first_child, n), _or_none(next_sibling, n)


def build_tree(
    parent_list: torch.Tensor,
    selected: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    depth: int,
) -> tuple[torch.Tensor, torch.Tensor, TreeLinks]:
    """The tree that a draft model's best candidates form: its mask bool [B, n, n], the nodes' positions in their
    sequences int64 [B, n], and its links. `seq_lens` [B] is the length before the tree; see `parents_of_scores`."""
    parents = parents_of_scores(parent_list, selected, topk)
    mask = ancestors_of(parents, depth)
    positions = mask.sum(-1) - 1 + seq_lens.long()[:, None]
    return mask, positions, links_of(parents)


def read_tree(mask: torch.Tensor, seq_lens: torch.Tensor) -> tuple[torch.Tensor, TreeLinks]:
    """Positions int64 [B, n] and links of the tree that `mask` bool [B, n, n] describes."""
    nodes = torch.arange(mask.shape[-1], device=mask.device)
    positions = (mask & (nodes < nodes[:, None])).sum(-1) + seq_lens.long()[:, None]
    return positions, links_of(parents_in_mask(mask))


def _or_none(nodes: torch.Tensor, n: int) -> torch.Tensor:
    return torch.where(nodes == n, torch.full_like(nodes, -1), nodes)
