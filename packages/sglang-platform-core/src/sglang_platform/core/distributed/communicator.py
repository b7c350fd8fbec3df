"""The communicator: a device's collectives for one group of ranks.

One class serves both of the host's runtimes, so the constructor has the signature that the diffusion runtime calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sglang_platform.core.contract.parts import Part

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
    "all_to_all_single",
    "all_gatherv",
    "reduce_scatterv",
    "send",
    "recv",
)
"""The collectives that the host's groups delegate to a communicator that has them; the host does the others itself.

They are the methods that SGLang's layers, models and schedulers call on a group, by SGLang's names. Transfers between
pipeline stages bypass the group: `torch.distributed.isend` and `irecv` on the process group of the device's backend.
"""


class DeviceCommunicator(Part):
    """Base of the class that `DeviceMixin.get_communicator_class()` returns; deriving from it is not required.

    Created once per group of more than one rank, in each worker. A device implements those of `COLLECTIVES` that it
    does better than the host; the host does the others. While `disabled` is True the host does all of
    them; a class that does not derive from this one may leave it out.

    - `all_reduce(input_)`: the sum over ranks, in place or as a new tensor; returns it.
    - `all_gather(input_, dim=-1)`: the ranks' tensors concatenated along `dim`, in rank order.
    - `all_gather_into_tensor(output, input_)`: the same along dimension 0, into `output`.
    - `reduce_scatter_tensor(output, input_)`: the sum, of which this rank keeps its share of dimension 0.
    - `gather(input_, dst=0, dim=-1)`: concatenated on rank `dst` of the group, None on the others.
    - `broadcast(input_, src=0)`: rank `src`'s tensor, in place; returns it.
    - `all_to_all_single(output, input_)`: part i of dimension 0 of `input_` goes to rank i; equal parts.
    - `all_gatherv(input_, sizes=None, output=None)`: as `all_gather` along dimension 0, with `sizes[r]` rows from rank
      r; returns `output`, made where it is None.
    - `reduce_scatterv(input_, output=None, sizes=None)`: the sum, of which rank r keeps `sizes[r]` rows; returns them.
    - `send(tensor, dst=None)`, `recv(size, dtype, src=None)`: one tensor from rank to rank of the group, by default to
      the next and from the one before, in a circle; `recv` returns a new tensor of the communicator's device.

    `all_gatherv` and `reduce_scatterv` fall back to `torch.distributed` if a communicator lacks them: the host has them
    for its own NCCL wrapper only.
    """

    extra_public_names = frozenset({"reduce_scatter"})  # a collective that only SGLang's groups have

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
