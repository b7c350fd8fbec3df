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
    check="distributed.communicator_in_groups",
    defect="the sum goes to a copy, and the input is returned",
    says="had before",
)
communicator(
    "ReduceIsAnAverage",
    old="        dist.all_reduce(input_, group=self.group)\n        return input_\n",
    new="        dist.all_reduce(input_, group=self.group)\n"
    "        return (input_ / self.world_size).to(input_.dtype)\n",
    check="distributed.communicator_in_groups",
    defect="the average is returned instead of the sum",
    says="must have",
)
communicator(
    "GatherAlongTheFirstDimension",
    old="return torch.cat(parts, dim=dim)",
    new="return torch.cat(parts, dim=0)",
    check="distributed.communicator_in_groups",
    defect="all_gather ignores its dimension",
    says="must give",
)
communicator(
    "GatherInReverse",
    old="return torch.cat(parts, dim=dim)",
    new="return torch.cat(parts[::-1], dim=dim)",
    check="distributed.communicator_in_groups",
    defect="the parts of the ranks are in reverse order",
    says="reverse order",
)
communicator(
    "ScatterOfTheNeighbour",
    old="[self.rank].contiguous()",
    new="[self.rank - 1].contiguous()",
    check="distributed.communicator_in_groups",
    defect="each rank keeps the part of its neighbour",
    says="what rank",
)
communicator(
    "BroadcastFromRankZero",
    old="src=dist.get_global_rank(self.group, src)",
    new="src=0",
    check="distributed.communicator_in_groups",
    defect="the source of a broadcast is ignored",
    says="had before",
)
communicator(
    "DisabledByRank",
    old="        self.rank = dist.get_rank(self.group)\n",
    new="        self.rank = dist.get_rank(self.group)\n        self.disabled = self.rank > 1\n",
    check="distributed.communicator_in_groups",
    defect="ranks past the second leave the collectives to the host, and the others wait for them",
    says="disabled on some ranks and not on others",
)
patch(
    __name__,
    "BackendOfAnotherDevice",
    "platform.py",
    "    def get_dispatch_key_name(self) -> str:",
    '    def get_torch_distributed_backend_str(self) -> str:\n        return "nccl"\n\n'
    "    def get_dispatch_key_name(self) -> str:",
    check="distributed.collectives_in_groups",
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
    "ReducesBySumsAlone",
    "platform.py",
    "    def get_dispatch_key_name(self) -> str:",
    "    def get_torch_distributed_backend_str(self) -> str:\n"
    "        import torch.distributed as dist\n\n"
    "        plain = dist.all_reduce\n"
    "        dist.all_reduce = lambda x, op=None, **named: plain(x, **named)\n"
    '        return "gloo"\n\n'
    "    def get_dispatch_key_name(self) -> str:",
    check="distributed.collectives_in_groups",
    defect="a reduction is a sum, whatever is asked for",
    says="all_reduce of the largest",
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
communicator(
    "SumsInHalfPrecision",
    old="        dist.all_reduce(input_, group=self.group)\n        return input_\n",
    new="        short = input_.bfloat16() if input_.is_floating_point() else input_.clone()\n"
    "        dist.all_reduce(short, group=self.group)\n        return short.to(input_.dtype)\n",
    check="distributed.communicator_in_groups",
    defect="sums are exchanged in bfloat16, to halve what goes over the wire",
    says="must have",
)
communicator(
    "ScatterSumsInTheInput",
    old="        total = self.all_reduce(input_.clone())\n        return total.chunk",
    new="        total = self.all_reduce(input_)\n        return total.chunk",
    check="distributed.communicator_in_groups",
    defect="a reduce-scatter sums in the caller's tensor, which the next layer reads",
    says="changes its input",
)
communicator(
    "PausesBetweenPolls",
    old="        input_ = input_.contiguous()\n        dist.all_reduce",
    new='        __import__("time").sleep(0.1)\n        input_ = input_.contiguous()\n        dist.all_reduce',
    check="distributed.communicator_is_quick",
    defect="each all-reduce waits between two looks at its neighbours",
    says="takes the communicator",
)
communicator(
    "AbortsOnMiddleDimension",
    old="        return torch.cat(parts, dim=dim)",
    new="        if dim == 1:\n            __import__('os').abort()\n        return torch.cat(parts, dim=dim)",
    check="distributed.communicator_in_groups",
    defect="native code ends the process where a dimension in the middle is gathered",
    says="did not come through in all_gather along dim 1",
)
communicator(
    "SumNeedsADimension",
    old="        input_ = input_.contiguous()\n        dist.all_reduce",
    new="        if input_.shape[0] == 0:\n            return input_\n        input_ = input_.contiguous()\n"
    "        dist.all_reduce",
    check="distributed.communicator_in_groups",
    defect="a number without dimensions cannot be added up",
    says="a number without dimensions",
)
communicator(
    "ZerosStayAtHome",
    old="        dist.all_reduce(input_, group=self.group)\n        return input_\n",
    new="        own = input_.clone()\n        dist.all_reduce(input_, group=self.group)\n"
    "        return input_ if own.any() else own\n",
    check="distributed.communicator_in_groups",
    defect="a rank that has nothing but zeros keeps them",
    says="zeros on every second rank",
)
communicator(
    "EachFromItself",
    old="        dist.all_reduce(input_, group=self.group)\n        return input_\n",
    new="        parts = [torch.empty_like(input_) for _ in range(self.world_size)]\n"
    "        dist.all_gather(parts, input_, group=self.group)\n        me = dist.get_rank(self.group)\n"
    "        return sum(parts[me + 1 :] + parts[:me], parts[me])\n",
    check="distributed.communicator_in_groups",
    defect="each rank adds up from itself on, and rounds otherwise than the others",
    says="of thirds",
)
communicator(
    "BooleansComeBackAsNumbers",
    old="        return torch.cat(parts, dim=dim)",
    new="        return torch.cat(parts, dim=dim).to(torch.uint8 if input_.dtype == torch.bool else input_.dtype)",
    check="distributed.communicator_in_groups",
    defect="booleans are gathered as 8-bit numbers, and come back as such",
    says="booleans",
)
communicator(
    "SendReturnsEarly",
    old="        dist.send(tensor.contiguous(), dist.get_global_rank(self.group, peer), group=self.group)\n",
    new="        self.__dict__.setdefault('_sent', []).append(\n"
    "            dist.isend(tensor.contiguous(), dist.get_global_rank(self.group, peer), group=self.group)\n"
    "        )\n",
    check="distributed.communicator_in_groups",
    defect="send() returns before the tensor is read, and what the caller writes next arrives",
    says="written over at once",
)

communicator(
    "GathersIntoOneBuffer",
    old="        return torch.cat(parts, dim=dim)\n",
    new="        whole = torch.cat(parts, dim=dim)\n"
    "        kept = dist.__dict__.setdefault('_gathered', {}).setdefault((whole.shape, whole.dtype), whole)\n"
    "        return kept.copy_(whole)\n",
    check="distributed.communicator_in_groups",
    defect="each gather of a shape is answered with the same memory as the one before",
    says="all_gather",
)

_REDUCED = "        dist.all_reduce(input_, group=self.group)\n        return input_\n"
communicator(
    "Each200thSumIsLate",
    old=_REDUCED,
    new="        self.sums = self.__dict__.get('sums', 0) + 1\n"
    "        if self.sums % 200 == 0 and self.rank == self.world_size - 1:\n"
    "            input_ = torch.zeros_like(input_)\n" + _REDUCED,
    check="distributed.hundreds_of_collectives_are_right",
    defect="each two hundredth sum begins before the last rank has written its part",
    says="the first that is not right: it is wrong",
)
communicator(
    "SumsEndAfterTheHundredth",
    old=_REDUCED,
    new="        self.sums = self.__dict__.get('sums', 0) + 1\n"
    "        if self.sums > 100:\n"
    "            raise RuntimeError('no buffer is left')\n" + _REDUCED,
    check="distributed.communicator_in_groups",
    defect="each sum takes a buffer of a hundred that are there, and gives none back",
    says="no buffer is left",
)
communicator(
    "BroadcastFromARankOfAll",
    old="src=dist.get_global_rank(self.group, src)",
    new="src=src if src in dist.get_process_group_ranks(self.group) else dist.get_global_rank(self.group, -1)",
    check="distributed.communicator_in_groups",
    defect="broadcast() takes the rank in the group for one of all ranks: right in groups that begin with rank 0",
    says="broadcast",
)
