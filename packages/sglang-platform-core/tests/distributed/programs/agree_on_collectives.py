"""Is one of two ranks: compares every collective of `TorchGroupCommunicator` with what it must give."""

import sys

import torch
import torch.distributed as dist

from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

rank, ranks, store = int(sys.argv[1]), 2, sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
# A group whose ranks are numbered the other way round than the processes: src and dst count inside the group.
group = dist.new_group([1, 0], sort_ranks=False)
inside = dist.get_rank(group)
here = TorchGroupCommunicator(cpu_group=group)
everyone = [torch.arange(24.0).reshape(2, 3, 4) + 100 * r for r in range(ranks)]  # by rank inside the group
mine = everyone[inside]

x = mine.clone()
y = here.all_reduce(x)
assert y.data_ptr() == x.data_ptr()
assert torch.equal(x, everyone[0] + everyone[1])
assert torch.equal(here.all_reduce(mine.transpose(0, 1)), (everyone[0] + everyone[1]).transpose(0, 1))
for dtype in (torch.bfloat16, torch.int64):
    assert torch.equal(here.all_reduce(mine.to(dtype)), (everyone[0].to(dtype) + everyone[1].to(dtype)))
for dim in (0, 1, 2, -1, -3):
    expected = torch.cat([t.transpose(1, 2) for t in everyone], dim)
    assert torch.equal(here.all_gather(mine.transpose(1, 2), dim), expected)
assert here.all_gather(mine[:0]).numel() == 0
out = torch.empty(4, 3, 4)
here.all_gather_into_tensor(out, mine)
assert torch.equal(out, torch.cat(everyone))
share = torch.empty(1, 3, 4)
before = mine.clone()
here.reduce_scatter_tensor(share, mine)
assert torch.equal(share, (everyone[0] + everyone[1])[inside : inside + 1])
assert torch.equal(mine, before), "the input of a reduce-scatter is not to change"
for dst in (0, 1):
    gathered = here.gather(mine, dst=dst, dim=1)
    assert (gathered is None) == (inside != dst)
    assert gathered is None or torch.equal(gathered, torch.cat(everyone, 1))
for src in (0, 1):
    x = mine.clone()
    assert torch.equal(here.broadcast(x, src=src), everyone[src])
    assert torch.equal(x, everyone[src])
out = torch.empty(2, 3, 4)
here.all_to_all_single(out, mine)
assert torch.equal(out, torch.stack([t[inside] for t in everyone]))
for sizes in ([2, 2], [1, 2], [2, 0]):
    wanted = torch.cat([t[:n] for t, n in zip(everyone, sizes, strict=True)])
    assert torch.equal(here.all_gatherv(mine[: sizes[inside]], sizes), wanted)
    into = torch.empty_like(wanted)
    assert here.all_gatherv(mine[: sizes[inside]], sizes, into) is into
    assert torch.equal(into, wanted)
    whole = torch.cat([mine, mine])[: sum(sizes)]
    total = sum(torch.cat([t, t])[: sum(sizes)] for t in everyone)
    assert torch.equal(here.reduce_scatterv(whole, sizes=sizes), total.split(sizes)[inside])
    assert torch.equal(whole, torch.cat([mine, mine])[: sum(sizes)]), "the input is not to change"
try:
    here.all_gatherv(mine, [1, 1])
except ValueError as error:
    refusal = str(error)
else:
    raise AssertionError("more rows than the sizes say must be refused")
assert "2 rows where the sizes say 1" in refusal
for there in (None, 1 - inside):  # in a circle of two, the next rank is also the one before
    if inside == 0:
        here.send(mine.transpose(0, 1), there)
        assert torch.equal(here.recv(mine.shape, mine.dtype, there), everyone[1])
    else:
        assert torch.equal(here.recv((3, 2, 4), mine.dtype, there), everyone[0].transpose(0, 1))
        here.send(mine, there)
try:
    here.broadcast(mine.transpose(0, 1))
except ValueError:
    pass
else:
    raise AssertionError("a tensor with gaps cannot be broadcast in place")
dist.barrier()
dist.destroy_process_group()
print("ok")
