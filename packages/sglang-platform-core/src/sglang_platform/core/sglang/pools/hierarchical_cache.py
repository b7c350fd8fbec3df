"""The hierarchical cache on a device that is not CUDA: host memory from the platform, copies without kernels.

In SGLang (0.5.23 `mem_cache/pool_host/common.py:147`, and as early as 0.5.11 `mem_cache/memory_pool_host.py`) host
memory of an unknown device type is registered with `cudaHostRegister`, and rows are copied by functions of `sgl_kernel`
which no other device has. The platform's allocation function is added to SGLang's table of these functions by device
type. The copy functions are monkey-patched into the modules of the host pools before the first such pool is built.
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
"""Layouts of host memory, and the layout that replaces each where rows are copied without kernels."""


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register for out-of-tree devices other than CUDA; devices with kernels of their own keep SGLang's copies."""
    if platform.device_type == "cuda" or not platform.is_out_of_tree():
        return
    register_rule(platform, host, lambda server_args: _settle(server_args, platform, host))
    for place in host.host_pools:
        only_for(_FEATURE, f"{place}.__init__", _Equipped(platform, host, place), HookType.AROUND)


def _settle(server_args: Any, platform: Any, host: HostFacts) -> None:
    """Select copies without kernels if the platform has none; raises LaunchRefused for a layout that only kernels
    copy."""
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
    """Wraps the constructor of a host pool: installs the device's allocation and copies before SGLang allocates."""

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
    """An allocation function for SGLang's table, with the parameters that any release passes."""

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
    """True if a storage backend provides the memory (shared, or registered with its transfer engine)."""
    return type(allocator).__name__ != "HostTensorAllocator"


def _copies(memory: Any) -> dict[str, Any]:
    """Replacements for the functions of `sgl_kernel.kvcacheio` that the io backend 'direct' calls."""

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
