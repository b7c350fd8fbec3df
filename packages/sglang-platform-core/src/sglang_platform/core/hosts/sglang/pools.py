"""KV pools of ours on the host's pool classes, built with whatever keywords that version has."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hosts.sglang.checked import check_part, load
from sglang_platform.core.hosts.sglang.rebase import host_first, rebase
from sglang_platform.core.hosts.sglang.versions import HostFacts, facts

__all__ = ["host_pool", "rebase_pool", "without_stray_keywords"]

_CORE = {
    "mha": "sglang_platform.core.memory.mha:MHATokenToKVPool",
    "mla": "sglang_platform.core.memory.mla:MLATokenToKVPool",
    "dsa": "sglang_platform.core.memory.dsa:DSATokenToKVPool",
}

# The methods through which the host reaches each point that a vendor may override.
_THROUGH: dict[str, dict[str, tuple[str, ...]]] = {
    "mha": {"_store_kv_layer": ("set_kv_buffer",), "_move_kv_cache_impl": ("move_kv_cache",)},
    "mla": {
        "_scatter_mla_rows": ("set_kv_buffer", "set_mla_kv_buffer"),
        "_move_kv_cache_impl": ("move_kv_cache",),
    },
}
_THROUGH["dsa"] = _THROUGH["mla"]


def host_pool(kind: str) -> type:
    """The host's own pool class of a kind."""
    names = {"mha": "MHATokenToKVPool", "mla": "MLATokenToKVPool", "dsa": facts().dsa_pool}
    return load(f"sglang.srt.mem_cache.memory_pool:{names[kind]}")  # type: ignore[no-any-return]


def rebase_pool(cls: Any, kind: str, origin: PluginOrigin | None) -> type:
    """A KV pool class of ours on the host's pool of that kind, constructed with exactly the host's keywords."""
    core_base, host_base = load(_CORE[kind]), host_pool(kind)
    check_part(cls, (core_base, host_base), f"get_kv_pool_cls(kind={kind!r})", origin)
    bridge = host_first(core_base, host_base)
    bridge.update(_served_by_core(core_base, host_base, kind, facts()))
    return rebase(cls, core_base, host_base, bridge=bridge, outer=_PoolCompletion)


def without_stray_keywords(cls: type, kind: str) -> type:
    """The host's own class for a platform without an opinion, able to take what the host hands a platform's."""
    stray = facts().stray_pool_keywords
    if kind != "mla" or not stray:
        return cls
    return _tolerant(cls)


def _served_by_core(core_base: type, host_base: type, kind: str, host: HostFacts) -> dict[str, Any]:
    """The writing methods that core serves, where the host's own go past a point that a vendor may override."""
    served = {}
    for point, methods in _THROUGH[kind].items():
        # A kind whose host class never had the point is served by core on every version.
        if point in host.pool_points and hasattr(host_base, point):
            continue
        for name in methods:
            served[name] = (
                getattr(core_base, name) if name == "move_kv_cache" else _with_plain_slots(core_base, name)
            )
    return served


def _with_plain_slots(core_base: type, name: str) -> Any:
    """Core's method, given the slots where the host hands over a `KVWriteLoc` that wraps them (from 0.5.15)."""
    write = getattr(core_base, name)

    def method(
        self: Any, layer: Any, loc: Any = None, *args: Any, loc_info: Any = None, **kwargs: Any
    ) -> None:
        slots = loc_info if loc is None else loc
        write(self, layer, getattr(slots, "loc", slots), *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


class _PoolCompletion:
    """Lets `_create_buffers` of a vendor set `k_buffer` and `v_buffer` (MLA: `kv_buffer`) and nothing else."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name in facts().stray_pool_keywords:
            if name in kwargs and "kv_cache_dim" not in kwargs:  # a DSA pool takes them, an MLA pool does not
                del kwargs[name]
        super().__init__(*args, **kwargs)

    def _create_buffers(self) -> None:
        for scale in ("k_scale", "v_scale", "native_k_scale", "native_v_scale", "dq_k", "dq_v"):
            setattr(self, f"{scale}_buffer", None)
        if hasattr(self, "nsa_kv_cache_store_fp8"):  # the name before 0.5.13
            self.dsa_kv_cache_store_fp8 = self.nsa_kv_cache_store_fp8
        super()._create_buffers()  # type: ignore[misc]
        if hasattr(self, "_build_kv_buffer_descs"):
            if not hasattr(self, "_kv_buffer_descs"):
                self._kv_buffer_descs = self._build_kv_buffer_descs()
                self._init_data_ptrs_and_strides()  # type: ignore[attr-defined]
        elif hasattr(self, "k_buffer") and not hasattr(self, "data_ptrs"):
            self._describe_buffers()

    def _describe_buffers(self) -> None:
        """The addresses and row strides that hosts before 0.5.16 keep beside the buffers."""
        import torch

        pool: Any = self
        addresses = [
            torch.tensor([b.data_ptr() for b in buffers], dtype=torch.uint64, device=pool.device)
            for buffers in (pool.k_buffer, pool.v_buffer)
        ]
        self.k_data_ptrs, self.v_data_ptrs = addresses
        self.data_ptrs = torch.cat(addresses)
        self.data_strides = torch.tensor(
            [b.stride(0) * b.element_size() for b in (*pool.k_buffer, *pool.v_buffer)], device=pool.device
        )


_tolerant_classes: dict[type, type] = {}


def _tolerant(cls: type) -> type:
    found = _tolerant_classes.get(cls)
    if found is None:
        found = _tolerant_classes[cls] = type(
            cls.__name__, (_PoolCompletion, cls), {"__module__": cls.__module__}
        )
    return found
