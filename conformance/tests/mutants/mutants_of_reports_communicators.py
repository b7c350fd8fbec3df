"""Level 8 mutants: communicators as other projects had them wrong; the report stands behind the defect."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

communicator = partial(patch, __name__, file="communicator.py", check="distributed.communicator_in_groups")

_SUM = "        input_ = input_.contiguous()\n        dist.all_reduce(input_, group=self.group)\n"

communicator(
    "SizesThatChange",
    old=_SUM,
    new="        last, self._shape = getattr(self, '_shape', input_.shape), input_.shape\n"
    "        if last != input_.shape and self.rank == self.world_size - 1 and self.world_size >= 4:\n"
    "            input_ = torch.zeros_like(input_)\n" + _SUM,
    defect="on four ranks or more a sum of another size than the one before lacks the last rank's part (SGLang 11609)",
    says="all_reduce of a number",
)
communicator(
    "LargeSumsInFloat16",
    old=_SUM,
    new="        if input_.dtype == torch.bfloat16 and input_.nbytes >= 1 << 20:\n"
    "            return self.all_reduce(input_.half()).bfloat16()\n" + _SUM,
    defect="sums of 1 MiB of bfloat16 and more are made in float16: what is over 65,504, as activations of gpt-oss are,"
    " is infinite (SGLang 34473, vLLM 55345)",
    says="past the range of float16",
)
communicator(
    "ColumnsBehindTiles",
    old="        output.copy_(self.reduce_scatter(input_, dim=0))\n",
    new="        output.copy_(self.reduce_scatter(input_, dim=0))\n"
    "        whole = output.shape[-1] // 32 * 32\n"
    "        if output.dim() > 1 and 0 < whole < output.shape[-1]:\n"
    "            output[..., whole:] = input_.chunk(self.world_size)[self.rank][..., whole:]\n",
    defect="of a scattered sum the columns behind the last whole tile of 32 are the rank's own (tt-metal 25212)",
    says="reduce_scatter_tensor of half",
)
communicator(
    "PartsOfBfloat16FromTheBeginning",
    old="[part.chunk(self.world_size)[self.rank] for part in parts]",
    new="[one.chunk(self.world_size)[self.rank * (one.dtype != torch.bfloat16)] for one in parts]",
    defect="all_to_all_single counts a number of bfloat16 as no bytes: every rank is sent the first part (torchcomms"
    " 2632)",
    says="all_to_all_single of half",
)
communicator(
    "RowsOfTheRanksInAList",
    old="        return gathered if output is None else output.copy_(gathered)\n",
    new="        if output is None:\n            return list(gathered.split(rows))\n"
    "        return output.copy_(gathered)\n",
    defect="all_gatherv answers with the rows of each rank in a list, of which the host takes the first (SGLang 28216)",
    says="all_gatherv",
)
communicator(
    "ReceivesIntoTheSameMemory",
    old="        tensor = torch.empty(tuple(size), dtype=dtype, device=self.device)\n",
    new="        kept, fresh = self.__dict__.setdefault('_received', {}), torch.empty(tuple(size), dtype=dtype)\n"
    "        tensor = kept.setdefault((tuple(size), dtype), fresh)\n",
    defect="tensors of one shape and type are received in one buffer: hidden states are the residual that came after"
    " them (torch 185331)",
    says="both calls answer with the same memory",
)
