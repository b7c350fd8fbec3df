"""One of two ranks: every collective on the device, queued and inside a graph, against what it is defined to give."""

import sys
import warnings

import torch
import torch.distributed as dist

from sglang_platform.example_oot.device import open_device
from sglang_platform.example_oot.device_graph import DeviceGraph

warnings.simplefilter("ignore")
rank, device_type = int(sys.argv[1]), open_device()
torch.accelerator.set_device_index(rank)
dist.init_process_group(device_type, rank=rank, world_size=2)


def full(value: float, *shape: int) -> torch.Tensor:
    return torch.full(shape, float(value), device=device_type)


x = full(rank + 1, 3)
dist.all_reduce(x)
assert x.device == torch.device(device_type, rank), x
assert x.tolist() == [3, 3, 3], x
largest = full(rank, 2)
dist.all_reduce(largest, op=dist.ReduceOp.MAX)
assert largest.tolist() == [1, 1], largest
whole = torch.empty(4, device=device_type)
dist.all_gather_into_tensor(whole, full(rank, 2))
assert whole.tolist() == [0, 0, 1, 1], whole
parts = [torch.empty(2, device=device_type) for _ in range(2)]
dist.all_gather(parts, full(rank + 5, 2))
assert [part.tolist() for part in parts] == [[5, 5], [6, 6]], parts
at_one = [torch.empty(2, device=device_type) for _ in range(2)] if rank == 1 else None
dist.gather(full(rank + 5, 2), at_one, dst=1)
assert at_one is None or [part.tolist() for part in at_one] == [[5, 5], [6, 6]], at_one
part = torch.empty(2, device=device_type)
dist.reduce_scatter_tensor(part, torch.arange(4.0, device=device_type))
assert part.tolist() == ([0, 2] if rank == 0 else [4, 6]), part
sent = full(rank, 2)
dist.broadcast(sent, 1)
assert sent.tolist() == [1, 1], sent
swapped = torch.empty(2, device=device_type)
dist.all_to_all_single(swapped, torch.tensor([10.0 * rank, 10.0 * rank + 1]).to(device_type))
assert swapped.tolist() == [rank, 10 + rank], swapped
if rank == 0:
    dist.send(full(7, 2), 1)
else:
    got = torch.empty(2, device=device_type)
    dist.recv(got, 0)
    assert got.tolist() == [7, 7], got
group = dist.new_group([0, 1], backend=device_type)
x = full(1, 2)
dist.all_reduce(x, group=group)
assert x.tolist() == [2, 2], x

inputs = full(1, 2)
graph = DeviceGraph()


def step() -> torch.Tensor:
    y = inputs * (rank + 1)
    dist.all_reduce(y)
    return y + 1


out = graph.capture(step)
for value in (2.0, 5.0):
    inputs.fill_(value)
    graph.replay()
    assert out.tolist() == [3 * value + 1] * 2, out
dist.barrier()
dist.destroy_process_group()
