"""A rank of a group of two, with 7 or 4 GiB free: what it says alone, over the group, and over another group."""

import sys

import torch
import torch.distributed as dist

from sglang_platform.core.contract import MMPlatform


class Platform(MMPlatform):
    def get_device(self, device_id: int = 0) -> torch.device:
        return torch.device("cpu")

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        return (7 - 3 * dist.get_rank()) << 30, 8 << 30


rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
platform = Platform()
print(
    platform.get_available_gpu_memory(),
    platform.get_available_gpu_memory(distributed=True),
    platform.get_available_gpu_memory(distributed=True, cpu_group=dist.new_group()),
)
dist.barrier()
dist.destroy_process_group()  # a rank that ends beside one whose threads still talk to it is aborted by gloo
