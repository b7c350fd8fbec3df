"""The communicator: collectives of one group of ranks, as a device does them best.

One class serves both of the host's runtimes, so the constructor is the one that the diffusion runtime calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["COLLECTIVES", "DeviceCommunicator"]

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "gather",
    "broadcast",
)
"""The collectives that the host's groups hand to a communicator which has them; the host carries the others itself."""


class DeviceCommunicator:
    """Base for the answer of `DeviceMixin.get_communicator_class()`; deriving from it is not required.

    Made once per group of more than one rank, in each worker. A device writes those of `COLLECTIVES` that it does
    better than the host; what it leaves out stays with the host. While `disabled` is True the host does all of them.

    - `all_reduce(input_)`: the sum over ranks, in place or as a new tensor; returns it.
    - `all_gather(input_, dim=-1)`: the ranks' tensors concatenated along `dim`, in rank order.
    - `all_gather_into_tensor(output, input_)`: the same along dimension 0, into `output`.
    - `reduce_scatter_tensor(output, input_)`: the sum, of which this rank keeps its share of dimension 0.
    - `gather(input_, dst=0, dim=-1)`: concatenated on rank `dst` of the group, None on the others.
    - `broadcast(input_, src=0)`: rank `src`'s tensor, in place; returns it.
    """

    disabled: bool = False

    def __init__(
        self,
        cpu_group: Any,
        device: torch.device | None = None,
        device_group: Any = None,
        unique_name: str = "",
    ) -> None:
        """`cpu_group` and `device_group` are process groups over the same ranks; the second is on the device."""
        self.cpu_group = cpu_group
        self.device_group = cpu_group if device_group is None else device_group
        self.device = device
        self.unique_name = unique_name
