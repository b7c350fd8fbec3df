"""The metadata that all layers of a step share, computed once per step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from sglang_platform.core.errors import PlatformError
from sglang_platform.core.portable.triton.split_work import SplitPlan

__all__ = ["TritonAttentionStep"]


@dataclass
class TritonAttentionStep:
    """lengths: of a decode's requests on the host, None where a graph fixes the grid. The other fields are for an
    extend; max_prefix is None if it is not known on the host."""

    lengths: torch.Tensor | Sequence[int] | None = None
    query_start: torch.Tensor | None = None
    prefix_lens: torch.Tensor | None = None
    max_new: int = 0
    max_prefix: int | None = None
    _plans: dict[Hashable, SplitPlan] = field(default_factory=dict)
    _layer: int = -1

    @cached_property
    def longest(self) -> int | None:
        """The most tokens of a request of a decode. Computed in the first layer: the replay of a graph needs none."""
        return None if self.lengths is None else _largest(self.lengths) or None

    @cached_property
    def alike(self) -> bool:
        """True if no request of a decode is known to have more than twice the average tokens."""
        lengths = self.lengths
        if lengths is None or self.longest is None:
            return False
        total = int(lengths.sum()) if isinstance(lengths, torch.Tensor) else sum(lengths)
        return self.longest * len(lengths) <= 2 * total

    def plans_of(self, layer_id: int) -> dict[Hashable, SplitPlan]:
        """The plans of parts that the layers of a pass share, empty in its first layer: a warm-up and a capture are two
        passes of one step, and the graph must hold the plan."""
        if layer_id <= self._layer:
            self._plans = {}
        self._layer = layer_id
        return self._plans

    @property
    def any_prefix(self) -> bool:
        """False if no request has cached tokens before the new ones."""
        return self.max_prefix != 0

    @classmethod
    def of(cls, forward_batch: Any, in_capture: bool, backend: str) -> TritonAttentionStep:
        """The step of a batch. Raises PlatformError, in the name of `backend`, for a mode that is not served."""
        mode = forward_batch.forward_mode
        if mode.is_decode() or mode.is_idle():
            return cls(lengths=None if in_capture else forward_batch.seq_lens_cpu)
        if mode.is_target_verify():
            return cls()  # the first layer turns it into an extend or a decode, and prepares that
        new = forward_batch.extend_seq_lens
        if new is None:
            raise PlatformError(
                f"{backend} has no attention for {mode}",
                why="the batch does not say how many new tokens each request has",
                fix="start without speculative decoding, or choose another --attention-backend",
            )
        start = torch.zeros(new.shape[0] + 1, dtype=torch.int32, device=new.device)
        torch.cumsum(new, 0, out=start[1:])
        news, prefixes = forward_batch.extend_seq_lens_cpu, forward_batch.extend_prefix_lens_cpu
        # Without the lengths on the CPU, use upper bounds rather than wait for the device.
        most = int(forward_batch.out_cache_loc.shape[0]) if news is None else _largest(news)
        return cls(
            query_start=start,
            prefix_lens=forward_batch.extend_prefix_lens,
            max_new=most,
            max_prefix=None if prefixes is None else _largest(prefixes),
        )

    def rows_and_lengths(self, forward_batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """For each new token the row of its request, and the number of tokens it may see."""
        if forward_batch.forward_mode.is_decode():
            return forward_batch.req_pool_indices, forward_batch.seq_lens
        tokens = forward_batch.out_cache_loc.shape[0]
        new = forward_batch.extend_seq_lens.long()
        owner = torch.repeat_interleave(
            torch.arange(new.shape[0], device=new.device), new, output_size=tokens
        )
        assert self.query_start is not None
        within = torch.arange(tokens, device=new.device) - self.query_start[owner]
        return forward_batch.req_pool_indices[owner], forward_batch.extend_prefix_lens[owner] + within + 1


def _largest(lengths: torch.Tensor | Sequence[int]) -> int:
    """0 of none. Python's `max` of a tensor takes microseconds for each element."""
    if isinstance(lengths, torch.Tensor):
        return int(lengths.max()) if lengths.numel() else 0
    return int(max(lengths, default=0))
