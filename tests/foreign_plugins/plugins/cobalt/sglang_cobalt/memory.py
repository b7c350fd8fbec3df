"""Pools and allocators: classes replaced, functions wrapped, from a table."""

from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator

from .registry import HookRegistry, HookType


class CobaltPagedAllocator(PagedTokenToKVPoolAllocator):
    def alloc_decode(self, seq_lens, seq_lens_cpu, last_loc):
        return super().alloc_decode(seq_lens, seq_lens_cpu, last_loc)


def free_memory(device, gpu_id, distributed=False, empty_cache=True, cpu_group=None):
    return 8.0


def capacity(device=None):
    return 16384


def slots_of_requests(original, tree_cache, num_tokens, *args, **kwargs):
    return original(tree_cache, num_tokens, *args, **kwargs)


HOOKS = {
    "sglang.srt.mem_cache.allocator.paged.PagedTokenToKVPoolAllocator": (
        CobaltPagedAllocator,
        HookType.REPLACE,
    ),
    "sglang.srt.utils.common.get_available_gpu_memory": (free_memory, HookType.REPLACE),
    "sglang.srt.utils.common.get_device_memory_capacity": (capacity, HookType.REPLACE),
    "sglang.srt.mem_cache.allocation.alloc_token_slots": (slots_of_requests, HookType.AROUND),
}


def register():
    for target, (function, hook_type) in HOOKS.items():
        HookRegistry.register(target, function, hook_type)
