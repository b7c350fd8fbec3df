"""Level 8 mutants: communicators."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

communicator = partial(patch, __name__, file="communicator.py")

communicator(
    "ReduceInPlaceOfACopy",
    old="        dist.all_reduce(input_, group=self.group)\n        return input_\n",
    new="        dist.all_reduce(input_.clone(), group=self.group)\n        return input_\n",
    check="distributed.communicator_all_reduce",
    defect="the sum goes to a copy, and the input is returned",
    says="had before",
)
communicator(
    "ReduceIsAnAverage",
    old="        dist.all_reduce(input_, group=self.group)\n        return input_\n",
    new="        dist.all_reduce(input_, group=self.group)\n"
    "        return (input_ / self.world_size).to(input_.dtype)\n",
    check="distributed.communicator_all_reduce",
    defect="the average is returned instead of the sum",
    says="must have",
)
communicator(
    "GatherAlongTheFirstDimension",
    old="return torch.cat(parts, dim=dim)",
    new="return torch.cat(parts, dim=0)",
    check="distributed.communicator_all_gather",
    defect="all_gather ignores its dimension",
    says="must give",
)
communicator(
    "GatherInReverse",
    old="return torch.cat(parts, dim=dim)",
    new="return torch.cat(parts[::-1], dim=dim)",
    check="distributed.communicator_all_gather",
    defect="the parts of the ranks are in reverse order",
    says="reverse order",
)
communicator(
    "ScatterOfTheNeighbour",
    old="[self.rank].contiguous()",
    new="[self.rank - 1].contiguous()",
    check="distributed.communicator_reduce_scatter",
    defect="each rank keeps the part of its neighbour",
    says="what rank",
)
communicator(
    "BroadcastFromRankZero",
    old="src=dist.get_global_rank(self.group, src)",
    new="src=0",
    check="distributed.communicator_broadcast",
    defect="the source of a broadcast is ignored",
    says="had before",
)
patch(
    __name__,
    "BackendOfAnotherDevice",
    "platform.py",
    "    def get_dispatch_key_name(self) -> str:",
    '    def get_torch_distributed_backend_str(self) -> str:\n        return "nccl"\n\n'
    "    def get_dispatch_key_name(self) -> str:",
    check="distributed.two_ranks_meet",
    defect="the torch.distributed backend is one that does not serve the device",
    says="nccl",
)
communicator(
    "RankOfTheWorld",
    old="        self.rank = dist.get_rank(self.group)",
    new="        self.rank = min(dist.get_rank(), self.world_size - 1)",
    check="distributed.communicator_in_groups",
    defect="a rank counts itself in the world, not in its group",
    says="group [",
)
patch(
    __name__,
    "BackendThatNeverComes",
    "platform.py",
    "    def get_dispatch_key_name(self) -> str:",
    '    def get_torch_distributed_backend_str(self) -> str:\n        return "mpi"\n\n'
    "    def get_dispatch_key_name(self) -> str:",
    check="distributed.collectives_in_groups",
    defect="the torch.distributed backend is one that torch was built without",
    says="did not come through",
)
