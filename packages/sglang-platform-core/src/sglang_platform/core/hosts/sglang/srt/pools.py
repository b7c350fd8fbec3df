"""KV pools of ours on the host's pool classes, built with whatever keywords that version has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sglang_platform.core.errors import HostError, PluginOrigin
from sglang_platform.core.hosts.sglang.checked import check_part, load
from sglang_platform.core.hosts.sglang.rebase import host_first, rebase
from sglang_platform.core.hosts.sglang.versions import HostFacts, facts

__all__ = ["host_pool", "rebase_pool", "refusing_pool", "without_stray_keywords"]

_CORE = {
    "mha": "sglang_platform.core.memory.mha:MHATokenToKVPool",
    "mla": "sglang_platform.core.memory.mla:MLATokenToKVPool",
    "dsa": "sglang_platform.core.memory.dsa:DSATokenToKVPool",
}

# The methods through which the host reaches each point that a vendor may override.
_THROUGH: dict[str, dict[str, tuple[str, ...]]] = {
    "mha": {"_store_kv_layer": ("set_kv_buffer",), "_move_kv_cache_impl": ("move_kv_cache",)},
    "mla": {
        "_scatter_mla_rows": ("set_mla_kv_buffer",),
        "_move_kv_cache_impl": ("move_kv_cache",),
    },
}
_THROUGH["dsa"] = {
    **_THROUGH["mla"],
    "_create_index_key_cache": (
        "get_index_k_with_scale_buffer",
        "set_index_k_scale_buffer",
        "get_index_k_scale_buffer",
        "get_index_k_continuous",
        "get_index_k_scale_continuous",
        "get_state_buf_infos",
        "get_cpu_copy",
        "load_cpu_copy",
    ),
}


def host_pool(kind: str) -> type:
    """The host's own pool class of a kind."""
    names = {"mha": "MHATokenToKVPool", "mla": "MLATokenToKVPool", "dsa": facts().dsa_pool}
    return load(f"sglang.srt.mem_cache.memory_pool:{names[kind]}")  # type: ignore[no-any-return]


def refusing_pool(kind: str, error: NotImplementedError, origin: PluginOrigin | None) -> type:
    """For a platform that has no pool of a kind: the host asks for every kind before it knows what a model needs, so
    only building one raises."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise HostError(
            f"this model needs a KV pool of kind {kind!r}, and the platform has none",
            plugin=origin,
            why=str(error) or f"get_kv_pool_cls(kind={kind!r}) raises NotImplementedError",
            fix="serve another model, or answer None there to take the host's own pool",
        ) from error

    return type(f"No{kind.upper()}Pool", (host_pool(kind),), {"__init__": refuse, "__module__": __name__})


def rebase_pool(cls: Any, kind: str, origin: PluginOrigin | None, *, triton: bool = False) -> type:
    """A KV pool class of ours on the host's pool of that kind, constructed with exactly the host's keywords.

    `triton`: the platform can launch the host's Triton kernels, with which its MLA and DSA pools write and read rows.
    """
    core_base, host_base = load(_CORE[kind]), host_pool(kind)
    check_part(cls, (core_base, host_base), f"get_kv_pool_cls(kind={kind!r})", origin)
    bridge = host_first(core_base, host_base)
    keys, scatter = "_create_index_key_cache", "_scatter_mla_rows"
    own_keys = kind == "dsa" and (not triton or _overrides(cls, core_base, keys))
    bridge.update(_served_by_core(core_base, host_base, kind, facts(), frozenset({keys} if own_keys else ())))
    if kind != "mha" and (not triton or _overrides(cls, core_base, scatter)):
        # No release's set_kv_buffer goes through the point: it indexes the buffer itself. Core's does.
        bridge["set_kv_buffer"] = _with_plain_slots(core_base, "set_kv_buffer")
    if kind != "mha" and not triton:
        bridge[scatter] = getattr(core_base, scatter)
        bridge["get_mla_kv_buffer"] = _after_waiting(core_base, "get_mla_kv_buffer")
    return rebase(cls, core_base, host_base, bridge=bridge, outer=_PoolCompletion)


def _overrides(cls: type, core_base: type, name: str) -> bool:
    """Whether a vendor's class defines `name`, before core's base comes in the order of resolution."""
    if core_base not in cls.__mro__:
        return False
    return any(name in vars(klass) for klass in cls.__mro__[: cls.__mro__.index(core_base)])


def without_stray_keywords(cls: type, kind: str) -> type:
    """The host's own class for a platform without an opinion, able to take what the host hands a platform's."""
    stray = facts().stray_pool_keywords
    if kind != "mla" or not stray:
        return cls
    return _tolerant(cls)


def _served_by_core(
    core_base: type, host_base: type, kind: str, host: HostFacts, own: frozenset[str]
) -> dict[str, Any]:
    """The methods that core serves, where the host's own go past a point that a vendor may override, and for the
    points in `own`."""
    served: dict[str, Any] = {}
    for point, methods in _THROUGH[kind].items():
        # A kind whose host class never had the point is served by core on every version.
        if point in host.pool_points and hasattr(host_base, point) and point not in own:
            continue
        if point == "_create_index_key_cache":
            served[point] = getattr(core_base, point)
            served["index_k_with_scale_buffer"] = _index_keys()
            # What core's keys are made of, where the host has set no such attribute by then.
            for name, value in _KEY_ATTRIBUTES.items():
                served[name] = functools.cached_property(value)
        for name in methods:
            plain = name in ("set_kv_buffer", "set_mla_kv_buffer")
            served[name] = _with_plain_slots(core_base, name) if plain else getattr(core_base, name)
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


def _after_waiting(core_base: type, name: str) -> Any:
    """Core's method, after the host's wait for a layer that is being loaded back from host memory."""
    read = getattr(core_base, name)

    def method(self: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        self.get_key_buffer(layer.layer_id)
        return read(self, layer, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def _torch_device(pool: Any) -> Any:
    import torch

    return torch.device(pool.device)


_KEY_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "_torch_device": _torch_device,
    "index_buf_size": lambda pool: pool.size,
    "index_page_size": lambda pool: pool.page_size,
    "skip_topk_layers": lambda pool: [False] * pool.layer_num,
}


def _index_keys() -> property:
    """The indexer's keys of a DSA pool, the vendor's or core's.

    A host up to 0.5.17 allocates its own, past the vendor: they are made when its constructor has set their sizes, and
    what it allocates is dropped.
    """

    def keys(pool: Any) -> Any:
        if "index_key_cache" not in pool.__dict__:
            if not pool.__dict__.get("skip_topk_layers"):
                pool.skip_topk_layers = _KEY_ATTRIBUTES["skip_topk_layers"](pool)
            pool.index_key_cache = pool._create_index_key_cache()
        return pool.index_key_cache.buffer

    def drop(pool: Any, buffers: Any) -> None:
        keys(pool)

    return property(keys, drop)


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
