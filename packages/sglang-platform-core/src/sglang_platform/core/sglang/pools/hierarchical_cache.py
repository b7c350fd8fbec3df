"""The hierarchical cache on a device that is not CUDA: host memory as the platform has it, copies without kernels.

In SGLang (0.5.23 `mem_cache/pool_host/common.py:147`, and as early as 0.5.11 `mem_cache/memory_pool_host.py`) host
memory of an unknown device type is registered with `cudaHostRegister`, and rows are copied by functions of `sgl_kernel`
which no other device has. The table of allocation functions has a place per device type: the platform's goes there. The
copies are names in the modules of the host pools, which are set before the first such pool is built.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.arguments.server_args import register_rule
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.registration import argument, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_logger = logging.getLogger(__name__)

_BASE = "sglang_platform.core.memory.host_memory:HostMemory"
_FEATURE = argument("enable_hierarchical_cache")
_DIRECT_LAYOUTS = {
    "layer_first": "layer_first",
    "page_first": "page_first_direct",
    "page_first_direct": "page_first_direct",
}
"""Layouts of host memory, and what each is called where rows are copied without kernels."""


def register_hooks(platform: Any, host: HostFacts) -> None:
    """For devices other than CUDA; those with kernels of their own keep the host's way of copying."""
    if platform.device_type == "cuda" or not platform.is_out_of_tree():
        return
    register_rule(platform, host, lambda server_args: _settle(server_args, platform, host))
    for place in host.host_pools:
        only_for(_FEATURE, f"{place}.__init__", _Equipped(platform, host, place), HookType.AROUND)


def _settle(server_args: Any, platform: Any, host: HostFacts) -> None:
    """Copies without kernels where the platform has none; LaunchRefused for a layout that only kernels copy."""
    if not server_args.enable_hierarchical_cache or platform.capabilities.hicache_device_kernels:
        return
    layout = server_args.hicache_mem_layout
    if layout not in _DIRECT_LAYOUTS:
        raise LaunchRefused(
            f"--hicache-mem-layout {layout} does not work on the platform {platform.device_name!r}",
            plugin=getattr(platform, "_plugin_origin", None),
            why="SGLang copies this layout with device kernels alone (io backend 'kernel'; SGLang "
            f"{host.version}, {host.host_pools[0].partition(':')[0]}, load_to_device_per_layer), and the platform "
            "declares hicache_device_kernels False",
            fix=f"choose one of {', '.join(_DIRECT_LAYOUTS)}",
        )
    if server_args.hicache_io_backend != "direct" or _DIRECT_LAYOUTS[layout] != layout:
        _logger.info(
            "hierarchical cache on %s: io backend 'direct', layout %s: the platform declares no device kernels for it",
            platform.device_name,
            _DIRECT_LAYOUTS[layout],
        )
        server_args.hicache_io_backend = "direct"
        server_args.hicache_mem_layout = _DIRECT_LAYOUTS[layout]


class _Equipped:
    """Around the building of a host pool: what the device needs is in place before the host allocates."""

    def __init__(self, platform: Any, host: HostFacts, place: str) -> None:
        self.platform, self.host, self.module = platform, host, place.partition(":")[0]

    def __call__(self, original: Any, pool: Any, *args: Any, **kwargs: Any) -> Any:
        memory = host_memory(self.platform)
        load(self.host.host_allocations)[self.platform.device_type] = _allocation(memory)
        if not self.platform.capabilities.hicache_device_kernels:
            module = importlib.import_module(self.module)
            for name, function in _copies(memory).items():
                setattr(module, name, function)
        return original(pool, *args, **kwargs)


def host_memory(platform: Any) -> Any:
    """The platform's host memory, one object per worker."""
    made = getattr(platform, "_host_memory", None)
    if made is None:
        cls = platform.get_host_memory_cls() or load(_BASE)
        made = platform._host_memory = cls(pins=bool(platform.is_pin_memory_available()))
    return made


def _allocation(memory: Any) -> Any:
    """One of the host's allocation functions, with the parameters that any release passes."""

    def allocate(
        dims: Any, dtype: Any, device: Any, pin_memory: bool, allocator: Any, **granularity: Any
    ) -> Any:
        if allocator is None or not _lends_memory(allocator):
            return memory.allocate(dims, dtype)
        buffer = allocator.allocate(dims, dtype=dtype, device=device)
        memory.register(buffer)
        return buffer

    return allocate


def _lends_memory(allocator: Any) -> bool:
    """Whether a storage brings the memory (shared, or registered with its transfer engine)."""
    return type(allocator).__name__ != "HostTensorAllocator"


def _copies(memory: Any) -> dict[str, Any]:
    """Stand in for the functions of `sgl_kernel.kvcacheio` that the io backend 'direct' calls."""

    def transfer_kv_direct(
        src_layers: Any, dst_layers: Any, src_indices: Any, dst_indices: Any, page_size: int
    ) -> None:
        memory.copy_slots(src_layers, dst_layers, src_indices, dst_indices)

    def transfer_kv_per_layer_direct_pf_lf(
        src_ptrs: Any, dst_ptrs: Any, src_indices: Any, dst_indices: Any, layer_id: int, page_size: int
    ) -> None:
        memory.copy_pages_in(src_ptrs, dst_ptrs, src_indices, dst_indices, layer_id, page_size)

    def transfer_kv_all_layer_direct_lf_pf(
        src_ptrs: Any, dst_ptrs: Any, src_indices: Any, dst_indices: Any, page_size: int
    ) -> None:
        memory.copy_pages_out(src_ptrs, dst_ptrs, src_indices, dst_indices, page_size)

    return {
        function.__name__: function
        for function in (
            transfer_kv_direct,
            transfer_kv_per_layer_direct_pf_lf,
            transfer_kv_all_layer_direct_lf_pf,
        )
    }
