"""The experts that a batch chose, under new numbers: a wrapper brings these alone, and the method it wraps computes.

The numbers keep their order. So a kernel adds a token's experts in the order in which it would add all, and the result
is the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["EXPERT_TENSORS", "ChosenExperts", "OtherExperts"]

EXPERT_TENSORS = ("w13_weight", "w2_weight")
"""SGLang's names of the experts' tensors, [E, 2 I, H] (gate, then up) and [E, H, I]."""


class ChosenExperts:
    """ids: the experts of the batch in rising order, int64 [n], n > 0; dispatched: the batch under their new numbers.

    Reading which they are waits for the device, so no graph can hold it: launch with `--disable-cuda-graph`.
    """

    def __init__(self, dispatch_output: Any, experts: int) -> None:
        chosen = dispatch_output.topk_output.topk_ids
        ids = chosen.unique().long()
        ids = ids[ids >= 0]  # -1: another rank's expert
        self.ids = ids if ids.numel() else ids.new_zeros(1)
        numbers = torch.full((experts + 1,), -1, device=chosen.device)  # the last stands for -1
        numbers[self.ids] = torch.arange(self.ids.numel(), device=chosen.device)
        topk = dispatch_output.topk_output._replace(topk_ids=numbers[chosen.long()].to(chosen.dtype))
        self.dispatched = dispatch_output._replace(topk_output=topk)


class OtherExperts:
    """A layer with other tensors in place of its experts'; whatever else is asked of it, the layer answers."""

    def __init__(self, layer: Any, tensors: dict[str, torch.Tensor]) -> None:
        self._layer = layer
        vars(self).update(tensors)
        self.num_experts = self.num_local_experts = next(iter(tensors.values())).shape[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)
