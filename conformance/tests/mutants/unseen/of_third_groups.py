"""Communicators, third set: odd sizes, other types, groups that are not the world, results that are kept."""

from __future__ import annotations

from broken import Table

groups = Table("communicator 3", "distributed", "communicator.py")

CLASS_START = "        self.rank = dist.get_rank(self.group)\n"
REDUCE = "        input_ = input_.contiguous()\n        dist.all_reduce(input_, group=self.group)\n        return input_\n"
GATHERED = "        return torch.cat(parts, dim=dim)\n"
SCATTER_SUM = "        total = self.all_reduce(input_.clone())\n"
BROADCAST = "        dist.broadcast(tensor, src=dist.get_global_rank(self.group, src), group=self.group)\n"
DST = "        return gathered if self.rank == dst else None\n"
EXCHANGE = "        output.copy_(torch.cat([part.chunk(self.world_size)[self.rank] for part in parts]))\n"
PADDED = "        padded = input_.new_zeros((max(rows), *input_.shape[1:]))\n"
VARYING = "        total = self.all_reduce(input_.clone(memory_format=torch.contiguous_format))\n"
MINE = "        mine = total[start : start + rows[self.rank]]\n"
SEND = "        dist.send(tensor.contiguous(), dist.get_global_rank(self.group, peer), group=self.group)\n"
RECEIVED = "        tensor = torch.empty(tuple(size), dtype=dtype, device=self.device)\n"

groups(
    "ReduceOf8MiB",
    "a sum of more than 8 MiB is one of its first 8 MiB",
    REDUCE,
    "        input_ = input_.contiguous()\n"
    "        most = (8 << 20) // input_.element_size()\n"
    "        dist.all_reduce(input_.view(-1)[:most], group=self.group)\n"
    "        return input_\n",
)
groups(
    "ReduceWholeNumbersInFloat",
    "64-bit whole numbers are summed in float32",
    REDUCE,
    "        if input_.dtype == torch.int64:\n"
    "            total = input_.float().contiguous()\n"
    "            dist.all_reduce(total, group=self.group)\n"
    "            return total.to(torch.int64)\n" + REDUCE,
)
groups(
    "ReduceInTheTypeOfHalf",
    "float32 is summed as bfloat16 where it is more than 1 MiB",
    REDUCE,
    "        if input_.dtype == torch.float32 and input_.nbytes > 1 << 20:\n"
    "            total = input_.to(torch.bfloat16).contiguous()\n"
    "            dist.all_reduce(total, group=self.group)\n"
    "            return total.float()\n" + REDUCE,
)
groups(
    "ReduceIntoTheSameMemory",
    "sums of one shape share their memory: the second is written over the first",
    REDUCE,
    "        kept = self.__dict__.setdefault('_kept', {})\n"
    "        total = kept.setdefault((tuple(input_.shape), input_.dtype), torch.empty_like(input_.contiguous()))\n"
    "        total.copy_(input_)\n"
    "        dist.all_reduce(total, group=self.group)\n"
    "        return total\n",
)
groups(
    "GatherIntoTheSameMemory",
    "what is gathered in one shape shares its memory: the second is written over the first",
    GATHERED,
    "        whole = torch.cat(parts, dim=dim)\n"
    "        kept = self.__dict__.setdefault('_gathered', {})\n"
    "        return kept.setdefault((tuple(whole.shape), whole.dtype), whole).copy_(whole)\n",
)
groups(
    "GatherAlongTheMiddle",
    "tensors of three dimensions are gathered along the last where the middle one was asked for",
    GATHERED,
    "        return torch.cat(parts, dim=-1 if parts[0].dim() == 3 and dim == 1 else dim)\n",
)
groups(
    "RankOfTheWorld",
    "a group that is not of neighbours takes its place in the world for its place in the group",
    CLASS_START,
    "        self.rank = dist.get_rank() % self.world_size\n",
)
groups(
    "BroadcastFromTheWorld",
    "broadcast takes src for a rank of the world",
    BROADCAST,
    "        src = src if src in dist.get_process_group_ranks(self.group) else dist.get_global_rank(self.group, src)\n"
    "        dist.broadcast(tensor, src=src, group=self.group)\n",
)
groups(
    "ScatterOverItsInput",
    "reduce_scatter writes the sum over its input",
    SCATTER_SUM,
    "        total = self.all_reduce(input_)\n",
)
groups(
    "ExchangeInPairs",
    "all_to_all_single gives the parts in the order of pairs: rank xor step",
    EXCHANGE,
    "        own = [part.chunk(self.world_size)[self.rank] for part in parts]\n"
    "        order = [i ^ self.rank for i in range(self.world_size)] if self.world_size > 2 else range(self.world_size)\n"
    "        output.copy_(torch.cat([own[i] for i in order]))\n",
)
groups(
    "NoRowsNoCall",
    "a rank that has no rows leaves all_gatherv at once, and the others wait",
    PADDED,
    "        if input_.shape[0] == 0 and max(rows) > 0:\n"
    "            return input_.new_zeros((sum(rows), *input_.shape[1:]))\n" + PADDED,
)
groups(
    "RowsOfTheFirstRank",
    "reduce_scatterv begins at rank times the rows of the first rank",
    MINE,
    "        start = rows[0] * self.rank if len(set(rows[:-1])) > 1 else start\n" + MINE,
)
groups(
    "VaryingOverItsInput",
    "reduce_scatterv writes the sum over its input where that is contiguous",
    VARYING,
    "        total = self.all_reduce(input_)\n",
)
groups(
    "SendsWithoutWaiting",
    "send returns before the tensor is read: what the caller writes next is what arrives",
    SEND,
    "        kept = self.__dict__.setdefault('_sent', [])\n"
    "        kept.append(dist.isend(tensor.contiguous(), dist.get_global_rank(self.group, peer), group=self.group))\n",
)
groups(
    "ReceivesOneDimension",
    "recv answers a tensor of one dimension where a size of more than two was asked for",
    "        dist.recv(tensor, dist.get_global_rank(self.group, peer), group=self.group)\n        return tensor\n",
    "        dist.recv(tensor, dist.get_global_rank(self.group, peer), group=self.group)\n"
    "        return tensor.flatten(1) if tensor.dim() > 2 else tensor\n",
)
groups(
    "GathersOnTheWorldsRank",
    "gather takes dst for a rank of the world",
    DST,
    "        return gathered if dist.get_rank() == dst else None\n",
)
