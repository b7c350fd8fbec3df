"""A communicator of two collectives, a dataclass without a base class; sums by gathering, added in order of rank.

Permitted by: DeviceCommunicator ("deriving from it is not required"; "A device implements those of `COLLECTIVES` that
it does better than the host; the host does the others"; `disabled`: "a class that does not derive from this one may
leave it out"; all_reduce: "the sum over ranks, in place or as a new tensor").

level: distributed
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sglang_platform.conformance.reference.platform import ReferencePlatform

if TYPE_CHECKING:
    import torch


@dataclass(eq=False)
class _TwoCollectives:
    """The constructor that the contract calls is the one that `dataclass` writes."""

    cpu_group: Any
    device: Any = None
    device_group: Any = None
    unique_name: str = ""
    _kept_ranks: int = field(default=0, init=False, repr=False)

    def _parts(self, mine: torch.Tensor) -> list[torch.Tensor]:
        import torch
        import torch.distributed as dist

        group = self.device_group or self.cpu_group
        self._kept_ranks = self._kept_ranks or dist.get_world_size(group)
        mine = mine.contiguous()
        parts = [torch.empty_like(mine) for _ in range(self._kept_ranks)]
        dist.all_gather(parts, mine, group=group)
        return parts

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """A new tensor; floating types are added in float32 or better, and rounded once."""
        import torch

        wide = torch.promote_types(input_.dtype, torch.float32) if input_.is_floating_point() else input_.dtype
        first, *others = self._parts(input_)
        total = first.to(wide, copy=True)
        for part in others:
            total += part.to(wide)
        return total.to(input_.dtype)

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        import torch

        return torch.cat(self._parts(input_), dim=dim)


class Platform(ReferencePlatform):
    """Nothing else differs."""

    def get_communicator_class(self) -> type | None:
        return _TwoCollectives
