"""KV pools re-based on the host's pool classes, constructed with the keywords of the installed release.

A re-based class keeps the host's methods that call a pool's overridable points. Where they bypass a point that a vendor
may override, core's method replaces them; `_REACHED_BY` lists these methods. The kinds themselves are in the contract
(`contract.pool_kinds`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.errors import HostError, PluginOrigin
from sglang_platform.core.sglang.host_classes import check_part, load
from sglang_platform.core.sglang.pools.buffers import PoolCompletion
from sglang_platform.core.sglang.pools.index_keys import index_keys_by_core
from sglang_platform.core.sglang.pools.kinds import host_pool
from sglang_platform.core.sglang.rebase import host_first, rebase
from sglang_platform.core.sglang.versions import facts

__all__ = ["rebase_pool", "refusing_pool", "without_stray_keywords"]

_STORE, _SCATTER, _MOVE, _KEYS, _ROWS = (
    "_store_kv_layer",
    "_scatter_mla_rows",
    "_move_kv_cache_impl",
    "_create_index_key_cache",
    "_slot_buffers",
)
_WRITES = frozenset({"set_kv_buffer", "set_mla_kv_buffer"})
_BY_SLOT = ("get_cpu_copy", "load_cpu_copy", "get_contiguous_buf_infos", _MOVE)

_REACHED_BY: Mapping[str, tuple[str, ...]] = {
    _STORE: ("set_kv_buffer",),
    _SCATTER: ("set_mla_kv_buffer",),
    _MOVE: ("move_kv_cache",),
    _KEYS: (
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
"""Each point that a vendor may override, with the methods through which the host reaches it. A kind of pool has the
points that core's base class of that kind has."""


def rebase_pool(cls: Any, kind: str, origin: PluginOrigin | None, *, triton: bool = False) -> type:
    """A KV pool class re-based on the host's pool of that kind, constructed with exactly the host's keywords.

    `triton`: the platform can launch the host's Triton kernels, with which its MLA and DSA pools write and read rows.
    """
    kind = kv_pool_kind(getattr(cls, "_pool_kind", kind))
    core_base, host_base = load(KINDS[kind].base), host_pool(kind)
    check_part(cls, (core_base, host_base), f"get_kv_pool_cls(kind={kind!r})", origin)
    bridge = host_first(core_base, host_base)
    for point, methods in _REACHED_BY.items():
        if not hasattr(core_base, point):
            continue
        by_core = point == _KEYS and (not triton or _overrides(cls, core_base, point))
        if by_core or not _host_goes_through(point, host_base):
            if point == _KEYS:
                bridge.update(index_keys_by_core(core_base))
            bridge.update({name: _of_core(core_base, name) for name in methods})
    if _overrides(cls, core_base, _ROWS):  # the host's methods assume buffers of shape [slots, ...]
        bridge.update({name: getattr(core_base, name) for name in _BY_SLOT})
    if not triton:
        # With speculative decoding, the host's method compiles its Triton kernel that moves accepted tokens.
        bridge["_init_kv_copy_and_warmup"] = _without_copy_kernel
        bridge[_MOVE] = getattr(core_base, _MOVE)
    if hasattr(
        core_base, _SCATTER
    ):  # latent rows, which the host writes and reads with Triton kernels of its own
        bridge.update(_latent_rows_by_core(cls, core_base, triton))
    return rebase(cls, core_base, host_base, bridge=bridge, outer=PoolCompletion)


def _without_copy_kernel(self: Any) -> None:
    self._kv_copy_config = None


def _host_goes_through(point: str, host_base: type) -> bool:
    # Some kinds lack the point in every release, though other kinds of the same release have it.
    return point in facts().pool_points and hasattr(host_base, point)


def _overrides(cls: type, core_base: type, name: str) -> bool:
    """True if a vendor's class defines `name` before core's base in the method resolution order."""
    if core_base not in cls.__mro__:
        return False
    return any(name in vars(klass) for klass in cls.__mro__[: cls.__mro__.index(core_base)])


def _latent_rows_by_core(cls: type, core_base: type, triton: bool) -> dict[str, Any]:
    """Core's methods for latent rows, where the host's Triton kernels cannot run or would bypass a vendor's
    override."""
    served: dict[str, Any] = {}
    if not triton or _overrides(cls, core_base, _SCATTER):
        # In every release set_kv_buffer indexes the buffer itself; core's calls the point.
        served["set_kv_buffer"] = _of_core(core_base, "set_kv_buffer")
    if not triton:
        served[_SCATTER] = getattr(core_base, _SCATTER)
        # Before it calls that point, the host packs rows of sparse attention with its own kernel.
        served["set_mla_kv_buffer"] = _of_core(core_base, "set_mla_kv_buffer")
        served["get_mla_kv_buffer"] = _after_waiting(core_base, "get_mla_kv_buffer")
    return served


def _of_core(core_base: type, name: str) -> Any:
    """Core's method; writes unwrap the slots from the host's `KVWriteLoc`."""
    method = getattr(core_base, name)
    if name not in _WRITES:
        return method

    def write(
        self: Any, layer: Any, loc: Any = None, *args: Any, loc_info: Any = None, **kwargs: Any
    ) -> None:
        slots = loc_info if loc is None else loc
        method(self, layer, getattr(slots, "loc", slots), *args, **kwargs)

    write.__name__ = write.__qualname__ = name
    return write


def _after_waiting(core_base: type, name: str) -> Any:
    """Core's method, after the host's wait for a layer that is being loaded back from host memory."""
    method = getattr(core_base, name)

    def read(self: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        self.get_key_buffer(layer.layer_id)
        return method(self, layer, *args, **kwargs)

    read.__name__ = read.__qualname__ = name
    return read


def refusing_pool(kind: str, error: NotImplementedError, origin: PluginOrigin | None) -> type:
    """A pool class whose constructor raises HostError, for a kind that the platform does not have. The host asks for
    every kind before it knows which one the model needs."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise HostError(
            f"this model needs a KV pool of kind {kind!r}, and the platform has none",
            plugin=origin,
            why=str(error) or f"get_kv_pool_cls(kind={kind!r}) raises NotImplementedError",
            fix="serve another model, or answer None there to take the host's own pool",
        ) from error

    return type(f"No{kind.upper()}Pool", (host_pool(kind),), {"__init__": refuse, "__module__": __name__})


def without_stray_keywords(cls: type, kind: str) -> type:
    """The host's own class, made to accept the extra keywords that the host passes to a platform's class."""
    return _tolerant(cls) if kind == "mla" and facts().stray_pool_keywords else cls


@functools.cache
def _tolerant(cls: type) -> type:
    return type(cls.__name__, (PoolCompletion, cls), {"__module__": cls.__module__})
