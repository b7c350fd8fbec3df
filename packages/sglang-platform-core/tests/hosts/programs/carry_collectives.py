"""Is one of two ranks: shows that a group of the host sends its collectives through the platform's communicator."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import inspect
import sys
from types import SimpleNamespace

import torch
import torch.distributed as dist

from sglang_platform.core import HookRegistry
from sglang_platform.core.sglang.groups import communicator
from sglang_platform.core.sglang.versions import facts

rank, store = int(sys.argv[1]), sys.argv[2]
calls = []


class Counted:
    """Of no base class, which would give it `disabled`."""

    def __init__(self, device_group, **kwargs):
        self.device_group = device_group

    def all_reduce(self, input_):
        calls.append("all_reduce")
        dist.all_reduce(input_, group=self.device_group)
        return input_

    def all_gather(self, input_, dim=-1):
        calls.append("all_gather")
        parts = [torch.empty_like(input_) for _ in range(2)]
        dist.all_gather(parts, input_.contiguous(), group=self.device_group)
        return torch.cat(parts, dim=dim)


communicator.register_hooks(SimpleNamespace(get_communicator_class=lambda: Counted), facts())
HookRegistry.apply_hooks()
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
from sglang.srt.distributed.parallel_state import GroupCoordinator

switches = {
    name: False for name in inspect.signature(GroupCoordinator.__init__).parameters if name.startswith("use_")
}
group = GroupCoordinator([[0, 1]], rank, "gloo", group_name="tp", **switches)
summed = group.all_reduce(torch.full((3,), float(rank + 1)))
assert summed.tolist() == [3.0] * 3, summed
gathered = group.all_gather(torch.full((2, 2), float(rank)), dim=1)
assert gathered.tolist() == [[0.0, 0.0, 1.0, 1.0]] * 2, gathered
group.broadcast(torch.ones(1), src=0)  # not the communicator's: the host carries it
assert calls == ["all_reduce", "all_gather"], calls
for sizes in (
    [1, 3],
    [2, 2],
):  # the host itself has these for NCCL only: core's are made of torch.distributed
    mine = torch.full((sizes[rank], 2), float(rank))
    wanted = torch.cat([torch.full((n, 2), float(r)) for r, n in enumerate(sizes)])
    for got in group.all_gatherv([mine, mine.double()], sizes=sizes) + group.all_gatherv(mine, sizes=sizes):
        assert torch.equal(got.float(), wanted), got
    parts = group.reduce_scatterv(torch.arange(8.0).view(4, 2) * (rank + 1), sizes=sizes)
    assert torch.equal(parts, (torch.arange(8.0).view(4, 2) * 3).split(sizes)[rank]), parts
assert calls == ["all_reduce", "all_gather"], calls
alone = GroupCoordinator([[0], [1]], rank, "gloo", group_name="one", **switches)
assert alone.all_reduce(torch.ones(1)).item() == 1.0
assert len(calls) == 2
dist.barrier()
dist.destroy_process_group()
print("carried", rank)
