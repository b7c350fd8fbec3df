"""Collectives of two processes on the device, queued and inside a graph, against what they are defined to give."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path

# This folder is no package: tests of a copied package must not find the original's.
_spec = importlib.util.spec_from_file_location("run_on_device", Path(__file__).with_name("run_on_device.py"))
assert _spec is not None
assert _spec.loader is not None
_run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_run)

_RANK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch, torch.distributed as dist
from sglang_platform.example_oot import torch_device
from sglang_platform.example_oot.torch_device.graph import DeviceGraph
rank, D = int(sys.argv[1]), torch_device.open_device()
torch.accelerator.set_device_index(rank)
dist.init_process_group(D, rank=rank, world_size=2)

def full(value, *shape):
    return torch.full(shape, float(value), device=D)

x = full(rank + 1, 3)
dist.all_reduce(x)
assert x.device == torch.device(D, rank) and x.tolist() == [3, 3, 3], x
m = full(rank, 2)
dist.all_reduce(m, op=dist.ReduceOp.MAX)
assert m.tolist() == [1, 1], m
whole = torch.empty(4, device=D)
dist.all_gather_into_tensor(whole, full(rank, 2))
assert whole.tolist() == [0, 0, 1, 1], whole
parts = [torch.empty(2, device=D) for _ in range(2)]
dist.all_gather(parts, full(rank + 5, 2))
assert [p.tolist() for p in parts] == [[5, 5], [6, 6]]
part = torch.empty(2, device=D)
dist.reduce_scatter_tensor(part, torch.arange(4.0, device=D))
assert part.tolist() == ([0, 2] if rank == 0 else [4, 6]), part
b = full(rank, 2)
dist.broadcast(b, 1)
assert b.tolist() == [1, 1]
swapped = torch.empty(2, device=D)
dist.all_to_all_single(swapped, torch.tensor([10.0 * rank, 10.0 * rank + 1]).to(D))
assert swapped.tolist() == [rank, 10 + rank], swapped
if rank == 0:
    dist.send(full(7, 2), 1)
else:
    got = torch.empty(2, device=D)
    dist.recv(got, 0)
    assert got.tolist() == [7, 7]
group = dist.new_group([0, 1], backend=D)
x = full(1, 2)
dist.all_reduce(x, group=group)
assert x.tolist() == [2, 2]

inputs = full(1, 2)
graph = DeviceGraph()
def step():
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
"""


def test_collectives_of_two_processes(tmp_path: Path) -> None:
    from sglang_platform.example_oot.kernels import library

    if library.backend() != "native":
        return  # without the device there is no backend to test
    program = tmp_path / "rank.py"
    program.write_text(_RANK)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    _run.run_ranks(program, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
