"""A second set: communicators whose ranks disagree, or that misread dimensions, strides and groups."""

from broken import Table, at, end

communicators = Table("communicator 2", "distributed", "communicator.py")

_CLASS = "sglang_platform.conformance.reference.communicator"


def comm(name: str, defect: str, body: str, *, healthy: bool = False) -> None:
    """All of the contract's collectives through torch.distributed, with `body` in the class."""
    communicators(
        name, defect,
        at("platform.py", "        return ReferenceCommunicator\n", f"        from {_CLASS} import Full\n\n        return Full\n"),
        end("communicator.py", "from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator\n\n\n"
            f"class Full(TorchGroupCommunicator):\n{body}"),
        healthy=healthy,
    )  # fmt: skip


_REDUCE = "    def all_reduce(self, input_):\n"
_PARTS = """\
        parts = [torch.empty_like(input_, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(self._group(input_)))]
        dist.all_gather(parts, input_.contiguous(), group=self._group(input_))
"""

comm("RanksSumInTheirOwnOrder", "each rank adds up from itself on: ranks differ in the last bit, and sample other tokens",
     _REDUCE + _PARTS + """\
        me = dist.get_rank(self._group(input_))
        total = parts[me].clone()
        for step in range(1, len(parts)):
            total = total + parts[(me + step) % len(parts)]
        return total
""")  # fmt: skip
comm("GatherOfBoolsAsNumbers", "booleans come back as 8-bit numbers", """\
    def all_gather(self, input_, dim=-1):
        out = super().all_gather(input_.to(torch.uint8) if input_.dtype == torch.bool else input_, dim)
        return out
""")  # fmt: skip
comm("GatherNegativeDimension", "a dimension below -1 is taken for the last", """\
    def all_gather(self, input_, dim=-1):
        return super().all_gather(input_, -1 if dim < 0 else dim)
""")  # fmt: skip
comm("StagingIsNotCleared", "a staging buffer keeps the end of a larger call, which a smaller one of other shape adds", _REDUCE + """\
        flat = input_.contiguous().view(-1)
        kept = self.__dict__.setdefault("_stage", {})
        staged = kept.get(flat.dtype)
        if staged is None or staged.numel() < flat.numel():
            staged = kept[flat.dtype] = torch.zeros(flat.numel() // 64 * 64 + 64, dtype=flat.dtype)
        whole = -(-flat.numel() // 64) * 64
        staged[: flat.numel()] += flat
        out = super().all_reduce(staged[:whole].clone())[: flat.numel()].view(input_.shape)
        staged[: flat.numel() - 1] = 0
        return out
""")  # fmt: skip
comm("BroadcastOfStridedIsLost", "a broadcast into a tensor with gaps goes to a copy", """\
    def broadcast(self, input_, src=0):
        whole = input_.contiguous()
        super().broadcast(whole, src)
        return input_
""")  # fmt: skip
comm("SendOfStridedMisread", "a tensor with gaps is sent as if it had none", """\
    def send(self, tensor, dst=None):
        flat = torch.as_strided(tensor, tensor.shape, torch.empty(tensor.shape).stride(), tensor.storage_offset())
        super().send(flat.clone(), dst)
""")  # fmt: skip
comm("FirstGroupForAll", "the first group of a process serves every later one of its size", """\
    _first = {}

    def _group(self, tensor):
        group = super()._group(tensor)
        return self._first.setdefault(dist.get_world_size(group), group)
""")  # fmt: skip
comm("ReduceOfNumbersFails", "a tensor without dimensions is an error", _REDUCE + """\
        if input_.shape[0] == 0:
            return input_
        return super().all_reduce(input_)
""")  # fmt: skip
comm("GatherBy16BitLengths", "rows of unequal numbers are counted in 8 bits", """\
    def all_gatherv(self, input_, sizes=None, output=None):
        if sizes is not None:
            sizes = [size % 256 for size in sizes]
            input_ = input_[: len(input_) % 256]
        return super().all_gatherv(input_, sizes, output)
""")  # fmt: skip
comm("ScattervByFirstSize", "the shares of unequal sizes begin at multiples of the first", """\
    def reduce_scatterv(self, input_, output=None, sizes=None):
        if sizes is None:
            return super().reduce_scatterv(input_, output, sizes)
        total = self.all_reduce(input_.clone())
        me = dist.get_rank(self._group(input_))
        mine = total[sizes[0] * me : sizes[0] * me + sizes[me]]
        return mine.clone() if output is None else output.copy_(mine)
""")  # fmt: skip
comm("ReduceLeavesAlone", "a rank whose part is all zeros takes no part, and keeps its zeros", _REDUCE + """\
        out = super().all_reduce(input_.clone())
        return input_ if not input_.any() else out
""")  # fmt: skip
comm("SumsByAFixedTree", "healthy: parts are gathered, and added up in pairs in one order on all ranks", _REDUCE + _PARTS + """\
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2])] + parts[len(parts) // 2 * 2 :]
        return parts[0]
""", healthy=True)  # fmt: skip
