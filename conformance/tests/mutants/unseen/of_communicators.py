"""Communicators that are wrong for some sizes, types, strides or groups."""

from broken import Table, at, end

communicators = Table("communicator", "distributed", "communicator.py")

_CLASS = "sglang_platform.conformance.reference.communicator"


def comm(name: str, defect: str, body: str, *, healthy: bool = False) -> None:
    """All of the contract's collectives through torch.distributed, with `body` in the class."""
    communicators(
        name,
        defect,
        at(
            "platform.py",
            "        return ReferenceCommunicator\n",
            f"        from {_CLASS} import Full\n\n        return Full\n",
        ),
        end(
            "communicator.py",
            "from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator\n\n\n"
            f"class Full(TorchGroupCommunicator):\n{body}",
        ),
        healthy=healthy,
    )


comm("AllCollectives", "healthy: all of the contract's collectives", "    pass", healthy=True)

_REDUCE = "    def all_reduce(self, input_):\n"
_SUPER = "        return super().all_reduce(input_)\n"

comm("ReduceOver1MiBPartial", "an all-reduce sums its first MiB", _REDUCE + """\
        flat = input_.contiguous().view(-1)
        super().all_reduce(flat[: (1 << 20) // flat.element_size()])
        return flat.view(input_.shape)
""")  # fmt: skip
comm("ReduceOver16MiBPartial", "an all-reduce sums its first 16 MiB", _REDUCE + """\
        flat = input_.contiguous().view(-1)
        super().all_reduce(flat[: (1 << 24) // flat.element_size()])
        return flat.view(input_.shape)
""")  # fmt: skip
comm("ReduceOddTail", "numbers behind the last multiple of 16 bytes are not summed", _REDUCE + """\
        flat = input_.contiguous().view(-1)
        whole = flat.numel() * flat.element_size() // 16 * 16 // flat.element_size()
        super().all_reduce(flat[:whole])
        return flat.view(input_.shape)
""")  # fmt: skip
comm("ReduceInBfloat16", "float32 is summed in bfloat16", _REDUCE + """\
        if input_.dtype == torch.float32:
            return super().all_reduce(input_.bfloat16()).float()
""" + _SUPER)  # fmt: skip
comm("ReduceReturnsFloat32", "16-bit tensors come back as float32", _REDUCE + """\
        if input_.dtype in (torch.bfloat16, torch.float16):
            return super().all_reduce(input_.float())
""" + _SUPER)  # fmt: skip
comm("ReduceOfIntegers", "integers are summed in float32, which is exact to 2**24", _REDUCE + """\
        if not input_.is_floating_point():
            return super().all_reduce(input_.float()).to(input_.dtype)
""" + _SUPER)  # fmt: skip
comm("ReduceAverages16Bits", "16-bit tensors are averaged", _REDUCE + """\
        summed = super().all_reduce(input_)
        if input_.dtype == torch.bfloat16:
            summed = summed / dist.get_world_size(self.cpu_group)
        return summed
""")  # fmt: skip
comm("ReduceOfStrided", "a tensor with gaps is read as if it had none", _REDUCE + """\
        if not input_.is_contiguous():
            input_ = torch.as_strided(input_, input_.shape, torch.empty(input_.shape).stride(),
                                      input_.storage_offset())
""" + _SUPER)  # fmt: skip
comm(
    "ReduceReturnsNone",
    "an all-reduce in place returns nothing",
    _REDUCE + "        super().all_reduce(input_)\n",
)
comm("ReduceEmptyFails", "a tensor without elements is an error", _REDUCE + """\
        assert input_.numel() > 0
""" + _SUPER)  # fmt: skip
comm("ReduceResultShared", "all results of a shape are one buffer", _REDUCE + """\
        self._kept = getattr(self, "_kept", {})
        kept = self._kept.setdefault((input_.shape, input_.dtype), torch.empty_like(input_))
        kept.copy_(input_)
        return super().all_reduce(kept)
""")  # fmt: skip
comm("ReduceFlattens", "tensors of more than 2 dimensions come back flat", _REDUCE + """\
        summed = super().all_reduce(input_)
        return summed.flatten(0, 1) if summed.dim() > 2 else summed
""")  # fmt: skip
comm("ReduceLargestAfterSmall", "a staging buffer has the size of the first call; what is behind is not summed",
     _REDUCE + """\
        flat = input_.contiguous().view(-1)
        self._size = getattr(self, "_size", flat.numel())
        super().all_reduce(flat[: max(self._size, 256)])
        return flat.view(input_.shape)
""")  # fmt: skip
comm(
    "ReduceSlow",
    "each all-reduce waits 50 ms",
    _REDUCE + "        import time\n\n        time.sleep(0.05)\n" + _SUPER,
)
comm("WorldForGroup", "the collectives of a group go through the whole world", """\
    def _group(self, tensor):
        return dist.group.WORLD
""")  # fmt: skip
comm("BroadcastFromWorldRank", "the source of a broadcast is taken for a rank of the world", """\
    def broadcast(self, input_, src=0):
        members = dist.get_process_group_ranks(self.cpu_group)
        dist.broadcast(input_, src=src if src in members else members[0], group=self.cpu_group)
        return input_
""")  # fmt: skip
comm("BroadcastFirstOnly", "a broadcast comes from rank 0 of the group", """\
    def broadcast(self, input_, src=0):
        return super().broadcast(input_, 0)
""")  # fmt: skip
comm("BroadcastCopies", "a broadcast answers with a new tensor and leaves the caller's", """\
    def broadcast(self, input_, src=0):
        return super().broadcast(input_.clone(), src)
""")  # fmt: skip
comm("BroadcastOfFloats", "integers of 64 bits are broadcast as float32", """\
    def broadcast(self, input_, src=0):
        if input_.dtype == torch.int64:
            input_.copy_(super().broadcast(input_.float(), src).long())
            return input_
        return super().broadcast(input_, src)
""")  # fmt: skip
comm("GatherAlongLast", "an all-gather along a dimension in the middle goes along the last", """\
    def all_gather(self, input_, dim=-1):
        return super().all_gather(input_, dim if dim in (0, -1) else -1)
""")  # fmt: skip
comm("GatherDefaultDim", "an all-gather without a dimension goes along the first", """\
    def all_gather(self, input_, dim=0):
        return super().all_gather(input_, dim)
""")  # fmt: skip
comm("GatherReversed", "parts stand in the order of the ring where there are more than 2 ranks", """\
    def all_gather(self, input_, dim=-1):
        parts = super().all_gather(input_, dim).chunk(dist.get_world_size(self.cpu_group), dim)
        shift = dist.get_rank(self.cpu_group) if len(parts) > 2 else 0
        return torch.cat(parts[shift:] + parts[:shift], dim)
""")  # fmt: skip
comm("GatherOfStrided", "an all-gather reads a transposed tensor as if it were contiguous", """\
    def all_gather_into_tensor(self, output, input_):
        if not input_.is_contiguous():
            input_ = torch.as_strided(input_, input_.shape, torch.empty(input_.shape).stride(),
                                      input_.storage_offset())
        super().all_gather_into_tensor(output, input_)
""")  # fmt: skip
comm("GatherIntoOtherShape", "an all-gather into a tensor refuses 3 dimensions", """\
    def all_gather_into_tensor(self, output, input_):
        assert input_.dim() < 3
        super().all_gather_into_tensor(output, input_)
""")  # fmt: skip
comm("GatherToAll", "every rank gets the result of a gather", """\
    def gather(self, input_, dst=0, dim=-1):
        return self.all_gather(input_, dim)
""")  # fmt: skip
comm("GatherToFirst", "a gather goes to rank 0 of the group, wherever it should", """\
    def gather(self, input_, dst=0, dim=-1):
        return super().gather(input_, 0, dim)
""")  # fmt: skip
comm("GatherFirstDim", "a gather goes along the first dimension", """\
    def gather(self, input_, dst=0, dim=-1):
        return super().gather(input_, dst, 0)
""")  # fmt: skip
comm("ScatterByWorldRank", "the share of a reduce-scatter is that of the rank in the world", """\
    def reduce_scatter_tensor(self, output, input_):
        summed = self.all_reduce(input_.clone())
        parts = summed.chunk(dist.get_world_size(self.cpu_group))
        output.copy_(parts[dist.get_rank() % len(parts)])
""")  # fmt: skip
comm("ScatterChangesInput", "a reduce-scatter sums in the caller's input", """\
    def reduce_scatter_tensor(self, output, input_):
        summed = self.all_reduce(input_)
        output.copy_(summed.chunk(dist.get_world_size(self.cpu_group))[dist.get_rank(self.cpu_group)])
""")  # fmt: skip
comm("ScatterIn16Bits", "a reduce-scatter of float32 sums in float16, which overflows", """\
    def reduce_scatter_tensor(self, output, input_):
        if input_.dtype == torch.float32:
            half = output.half()
            super().reduce_scatter_tensor(half, input_.half())
            output.copy_(half)
        else:
            super().reduce_scatter_tensor(output, input_)
""")  # fmt: skip
comm("AllToAllTransposed", "part i goes to the rank i places on", """\
    def all_to_all_single(self, output, input_):
        n, rank = dist.get_world_size(self.cpu_group), dist.get_rank(self.cpu_group)
        super().all_to_all_single(output, torch.cat(input_.chunk(n)[rank:] + input_.chunk(n)[:rank]))
""")  # fmt: skip
comm("AllToAllOwnPart", "a rank's own part is not copied", """\
    def all_to_all_single(self, output, input_):
        rank, share = dist.get_rank(self.cpu_group), len(output) // dist.get_world_size(self.cpu_group)
        kept = output[rank * share : (rank + 1) * share].clone()
        super().all_to_all_single(output, input_)
        output[rank * share : (rank + 1) * share] = kept
""")  # fmt: skip
comm("GathervPadded", "rows of unequal numbers are padded to the longest in the result", """\
    def all_gatherv(self, input_, sizes=None, output=None):
        result = super().all_gatherv(input_, sizes, output)
        if sizes is not None and len(set(sizes)) > 1:
            result[sizes[0] :] = result[sizes[0] :].roll(1, 0)
        return result
""")  # fmt: skip
comm("GathervZeroRows", "a rank without rows makes a gather of unequal parts fail", """\
    def all_gatherv(self, input_, sizes=None, output=None):
        assert sizes is None or min(sizes) > 0
        return super().all_gatherv(input_, sizes, output)
""")  # fmt: skip
comm("GathervOutputIgnored", "the caller's output stays as it was", """\
    def all_gatherv(self, input_, sizes=None, output=None):
        return super().all_gatherv(input_, sizes)
""")  # fmt: skip
comm("ScattervEqualShares", "the shares of a reduce-scatter are equal, whatever the sizes say", """\
    def reduce_scatterv(self, input_, output=None, sizes=None):
        mine = super().reduce_scatterv(input_, output, sizes)
        if sizes is not None and len(set(sizes)) > 1:
            rank, n = dist.get_rank(self.cpu_group), len(sizes)
            start = rank * (sum(sizes) // n)
            mine.copy_(self.all_reduce(input_.clone())[start : start + len(mine)].resize_(mine.shape))
        return mine
""")  # fmt: skip
comm("RecvInFloat32", "recv answers in float32, whatever type is asked for", """\
    def recv(self, size, dtype, src=None):
        return super().recv(size, dtype, src).float()
""")  # fmt: skip
comm("RecvFlat", "recv answers with one dimension", """\
    def recv(self, size, dtype, src=None):
        return super().recv(size, dtype, src).view(-1)
""")  # fmt: skip
comm("PeersOfTheWorld", "the peer of a send is taken for a rank of the world", """\
    @staticmethod
    def _peer(group, named, step):
        if named is None:
            return TorchGroupCommunicator._peer(group, named, step)
        members = dist.get_process_group_ranks(group)
        return named if named in members and named != dist.get_rank() else members[0]
""")  # fmt: skip
comm("ConstructorTakesThree", "the constructor does not take unique_name", """\
    def __init__(self, cpu_group, device=None, device_group=None):
        super().__init__(cpu_group, device, device_group)
""")  # fmt: skip
comm("ConstructorNeedsDeviceGroup", "the constructor refuses a group without a device group", """\
    def __init__(self, cpu_group, device=None, device_group=None, unique_name=""):
        assert device_group is not None
        super().__init__(cpu_group, device, device_group, unique_name)
""")  # fmt: skip
comm("ReduceHangsForFour", "with more than 2 ranks the sum is that of neighbours", _REDUCE + """\
        n = dist.get_world_size(self.cpu_group)
        if n <= 2:
            return super().all_reduce(input_)
        parts = self.all_gather(input_[None].contiguous(), 0)
        rank = dist.get_rank(self.cpu_group)
        return parts[rank] + parts[(rank + 1) % n]
""")  # fmt: skip
