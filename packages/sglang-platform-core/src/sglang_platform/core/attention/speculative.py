"""Expresses steps of speculative decoding as the decode and extend steps that every backend computes.

A batch that verifies a chain of draft tokens is an extend, and so is one that updates a draft model's cache. In a tree
of drafts each node is a separate decode row with its own row of slots: the request's prefix, then the node's ancestors
and itself. A draft model's step is a decode of its beams, each over the prefix and the beam's reserved slots.

Fields are SGLang 0.5.23's: `spec_info.custom_mask`, `spec_info.draft_token_num`, `spec_info.topk`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

__all__ = [
    "DraftPlace",
    "DraftStep",
    "TokenTable",
    "draft_extend_step",
    "draft_step",
    "tree_mask",
    "verify_step",
]


class TokenTable(NamedTuple):
    """Replaces the `ReqToTokenPool` of a backend."""

    req_to_token: torch.Tensor


class DraftPlace(NamedTuple):
    """Which of a draft model's steps a backend serves: step `step` (from 0) of `steps`, with `topk` beams per request.

    captured: whether the forwards are recorded into a graph, whose shapes must not depend on the lengths of a batch.
    """

    step: int
    topk: int
    steps: int
    captured: bool = False


class DraftStep(NamedTuple):
    """The batch to compute instead of the original; `table` is set if its rows are not those of the request pool."""

    batch: Any
    extends: bool
    table: TokenTable | None = None


def verify_step(forward_batch: Any, req_to_token: torch.Tensor) -> DraftStep:
    """The step that verifies the drafts of a batch: `seq_lens` is the prefix, `draft_token_num` drafts follow it."""
    drafts = int(forward_batch.spec_info.draft_token_num)
    mask = tree_mask(forward_batch)
    if mask is None:
        return DraftStep(_chain(forward_batch, drafts), extends=True)
    return _tree(forward_batch, mask, req_to_token)


def tree_mask(forward_batch: Any) -> torch.Tensor | None:
    """The attention mask among the drafts, bool [B, n, n]; None for a chain.

    The host's mask has n * n cells per request, or n * (prefix + n) with the prefix in front of each row.
    """
    import torch

    spec_info = forward_batch.spec_info
    cells = spec_info.custom_mask
    if cells is None or getattr(spec_info, "topk", None) == 1:
        return None
    n, batch = int(spec_info.draft_token_num), forward_batch.batch_size
    if cells.numel() == batch * n * n:
        return cells.view(batch, n, n).bool()
    prefix = forward_batch.seq_lens.long()
    width = prefix + n
    first = (width.cumsum(0) - width) * n
    nodes = torch.arange(n, device=cells.device)
    row = first[:, None] + nodes * width[:, None] + prefix[:, None]
    return cells[row[:, :, None] + nodes].bool()


def draft_step(forward_batch: Any, req_to_token: torch.Tensor, place: DraftPlace) -> DraftStep:
    """A draft model's step as a decode of its beams.

    `seq_lens` is the length before the draft; beam t of a request writes its token of step i to the slot at position
    `seq_lens + t * steps + i`.
    """
    import torch

    batch = _as_decode(forward_batch)
    lengths = forward_batch.seq_lens.long()
    if place.topk == 1:
        _set_lengths(batch, lengths + place.step + 1)
        return DraftStep(batch, extends=False)
    beams = torch.arange(place.topk, device=lengths.device)
    seen = torch.arange(place.step + 1, device=lengths.device)
    behind = lengths[:, None, None] + (beams[:, None] * place.steps + seen)
    rows = forward_batch.req_pool_indices.long()
    own = req_to_token[rows[:, None, None], behind]
    sees = torch.ones(*own.shape, dtype=torch.bool, device=lengths.device)
    known = None if place.captured else forward_batch.seq_lens_cpu
    table = _table(forward_batch, req_to_token, own, sees, known)
    return _rows(batch, table, (lengths + place.step + 1).repeat_interleave(place.topk))


def draft_extend_step(forward_batch: Any) -> DraftStep:
    """The step that extends a draft model's cache by the verified tokens; `seq_lens` includes them.

    The prefix is computed from the lengths, since a batch in a graph does not hold it. It is clamped at 0, since padded
    rows have more new tokens than their length.
    """
    batch = copy.copy(forward_batch)
    new = forward_batch.extend_seq_lens
    batch.forward_mode = type(forward_batch.forward_mode).EXTEND
    batch.extend_prefix_lens = (forward_batch.seq_lens - new).clamp(min=0).to(new.dtype)
    _set_lengths(batch, batch.extend_prefix_lens + new)
    return DraftStep(batch, extends=True)


def _chain(forward_batch: Any, drafts: int) -> Any:
    """The drafts as new tokens behind a cached prefix."""
    import torch

    batch = copy.copy(forward_batch)
    prefix = forward_batch.seq_lens
    batch.forward_mode = type(forward_batch.forward_mode).EXTEND
    batch.extend_prefix_lens = prefix.to(torch.int32)
    batch.extend_seq_lens = torch.full_like(batch.extend_prefix_lens, drafts)
    batch.extend_seq_lens_cpu = [drafts] * forward_batch.batch_size
    known = forward_batch.seq_lens_cpu
    batch.extend_prefix_lens_cpu = None if known is None else known.tolist()
    _set_lengths(batch, prefix + drafts)
    batch.seq_lens_cpu = None if known is None else known + drafts
    return batch


def _tree(forward_batch: Any, mask: torch.Tensor, req_to_token: torch.Tensor) -> DraftStep:
    batch, n = mask.shape[:2]
    own = forward_batch.out_cache_loc.view(batch, 1, n).expand(batch, n, n)
    table = _table(forward_batch, req_to_token, own, mask, forward_batch.seq_lens_cpu)
    lengths = forward_batch.seq_lens.long()[:, None] + mask.sum(-1)
    return _rows(_as_decode(forward_batch), table, lengths.flatten())


def _table(
    forward_batch: Any, req_to_token: torch.Tensor, own: torch.Tensor, sees: torch.Tensor, known: Any
) -> TokenTable:
    """A table with one line of slots per row: the request's prefix, then the slots of `own` [B, rows, n] that the row
    sees.

    `known`: the lengths on the CPU; without them a line is as long as the request pool's.
    """
    import torch

    prefix, width = forward_batch.seq_lens.long(), req_to_token.shape[1]
    if known is not None:
        width = min(int(known.max()) + own.shape[2], width)
    batch, rows, _ = own.shape
    lines = req_to_token[forward_batch.req_pool_indices.long(), :width]
    lines = torch.cat((lines, lines.new_zeros(batch, 1)), 1)[:, None].repeat(1, rows, 1)
    place = prefix[:, None, None] + sees.long().cumsum(-1) - 1
    place = torch.where(sees & (place < width), place, torch.full_like(place, width))
    lines.scatter_(2, place, own.to(lines.dtype))
    return TokenTable(lines.view(batch * rows, width + 1))


def _rows(batch: Any, table: TokenTable, lengths: torch.Tensor) -> DraftStep:
    import torch

    count = lengths.shape[0]
    batch.batch_size = count
    batch.req_pool_indices = torch.arange(count, device=lengths.device)
    _set_lengths(batch, lengths)
    return DraftStep(batch, extends=False, table=table)


def _as_decode(forward_batch: Any) -> Any:
    batch = copy.copy(forward_batch)
    batch.forward_mode = type(forward_batch.forward_mode).DECODE
    return batch


def _set_lengths(batch: Any, lengths: torch.Tensor) -> None:
    batch.seq_lens = lengths
    batch.seq_lens_cpu = None
    batch.seq_lens_sum = None
