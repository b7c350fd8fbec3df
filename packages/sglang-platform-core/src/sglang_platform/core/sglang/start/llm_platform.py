"""A plugin's platform as SGLang's platform: re-bases its class and translates its results into SGLang's classes."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from sglang_platform.core.contract.bridges import older_methods
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.types import kv_pool_kind
from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.errors import HostError, PluginOrigin
from sglang_platform.core.host import LLM_RUNTIME
from sglang_platform.core.ops.fused_op import FusedOp
from sglang_platform.core.plugins import refuse_after_failure
from sglang_platform.core.sglang import lora, parts
from sglang_platform.core.sglang.arguments import compiled_libraries
from sglang_platform.core.sglang.arguments.server_args import PORTABLE, choose_attention_backend
from sglang_platform.core.sglang.device import sent_tensors, stubs
from sglang_platform.core.sglang.graphs.decode import NoDecodeGraphs
from sglang_platform.core.sglang.graphs.ranks_apart import attend_apart, why_no_graphs
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.ops.fused import register_fused_ops
from sglang_platform.core.sglang.pools import rebased as pools
from sglang_platform.core.sglang.pools.kinds import host_pool
from sglang_platform.core.sglang.registries.kv_pools import registered_pool_cls
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.speculative import draft_steps
from sglang_platform.core.sglang.start.every_process import load_plugins_soon
from sglang_platform.core.sglang.start.platform_class import OneObject, RuntimeAdapter, rebase_for
from sglang_platform.core.sglang.versions import facts

__all__ = ["ADAPTER", "rebase_platform"]

_logger = logging.getLogger(__name__)

_PORTABLE_ATTENTION = "sglang_platform.core.portable.torch.attention:TorchAttentionBackend"


def rebase_platform(cls: type, origin: PluginOrigin) -> type:
    """`cls` re-based on SGLang's `SRTPlatform`. A class derived from `SRTPlatform` is returned unchanged.

    SGLang instantiates the result; its metaclass always returns the one platform object of the process.
    """
    from sglang.srt.platforms.interface import SRTPlatform

    return rebase_for(cls, origin, SRTPlatform, outer=_outer(facts().version), metaclass=_OneSRTPlatform)


class _OneSRTPlatform(OneObject):
    """Installs what must come early on instantiation: SGLang instantiates its platform in its first imports."""

    kind = SRT

    def __call__(cls) -> Any:
        platform = super().__call__()
        stubs.install(platform)
        sent_tensors.install(platform)
        load_plugins_soon()
        return platform


class _HostFacing:
    """Precedes the vendor's class in the MRO: calls it through `super()` and converts results for SGLang."""

    device_type: str
    _plugin_origin: PluginOrigin | None = None
    _host_capabilities: Any = None

    @property
    def capabilities(self) -> Any:
        """The vendor's capabilities; where SGLang has a struct for them, as that struct extended with core's fields."""
        if not facts().capabilities_struct:
            return super().capabilities  # type: ignore[misc]
        if self._host_capabilities is None:
            self._host_capabilities = _as_host_capabilities(super().capabilities)  # type: ignore[misc]
        return self._host_capabilities

    def get_device(self, device_id: int | None = 0) -> Any:
        # Before ranks exist, SGLang passes None and expects a device name without an index.
        return self.device_type if device_id is None else super().get_device(device_id)  # type: ignore[misc]

    def get_attention_backends(self) -> Mapping[str, Any]:
        """The vendor's; core's in plain torch on an out-of-tree device without any."""
        own: Mapping[str, Any] = super().get_attention_backends()  # type: ignore[misc]
        return own if own or not self.is_out_of_tree() else {PORTABLE: load(_PORTABLE_ATTENTION)}  # type: ignore[attr-defined]

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        kind = kv_pool_kind(kind)
        cls = registered_pool_cls(kind)
        if cls is None:
            try:
                cls = super().get_kv_pool_cls(kind=kind)  # type: ignore[misc]
            except NotImplementedError as error:
                return pools.refusing_pool(kind, error, self._plugin_origin)
        triton = bool(self.capabilities.supports_triton)
        if cls is None and self.is_out_of_tree() and not triton:  # type: ignore[attr-defined]
            cls = load(KINDS[kind].base)  # SGLang's own write rows of latents, and move rows, with Triton
        if cls is not None:
            return parts.rebase_pool(cls, kind, self._plugin_origin, triton=triton)
        if facts().takes_none_for_parts:
            return None
        return pools.without_stray_keywords(host_pool(kind), kind)

    def get_paged_allocator_cls(self) -> type | None:
        cls = super().get_paged_allocator_cls()  # type: ignore[misc]
        if cls is not None:
            return parts.rebase_allocator(cls, self._plugin_origin)
        return None if facts().takes_none_for_parts else parts.allocator_of_last_resort()

    def get_graph_runner_cls(self) -> type | None:
        cls = super().get_graph_runner_cls()  # type: ignore[misc]
        if cls is not None:
            arguments = served_model().server_args
            why = why_no_graphs(arguments, self) if attend_apart(arguments) else None
            if arguments is not None and arguments.attention_backend == PORTABLE:
                why = f"core's attention ({PORTABLE}) reads lengths on the CPU; bring an attention backend"
            if why is not None:
                _logger.warning("decode steps run without graphs on %s: %s", self, why)
                return NoDecodeGraphs
            return parts.rebase_graph_runner(cls, self._plugin_origin)
        self._must_answer("get_graph_runner_cls()", "graph_capture")
        return None

    def get_full_graph_backend_cls(self) -> type | None:
        cls = super().get_full_graph_backend_cls()  # type: ignore[misc]
        return None if cls is None else parts.rebase_full_graph_backend(cls, self._plugin_origin)

    def get_speculative_graph_runner_cls(self, algorithm: str, phase: str) -> type | None:
        cls: type | None = super().get_speculative_graph_runner_cls(algorithm=algorithm, phase=phase)  # type: ignore[misc]
        if cls is not None or self.get_full_graph_backend_cls() is None:
            return cls
        return draft_steps.host_graph_runner(phase)

    def get_piecewise_backend_cls(self) -> type | None:
        cls: type | None = super().get_piecewise_backend_cls()  # type: ignore[misc]
        if cls is None:
            self._must_answer("get_piecewise_backend_cls()", "piecewise_graph")
        return cls

    def _must_answer(self, factory: str, capability: str) -> None:
        """Raise HostError if an out-of-tree platform declares the capability: no release accepts None then, and older
        ones would call it."""
        if self.is_out_of_tree() and getattr(self.capabilities, capability):  # type: ignore[attr-defined]
            raise HostError(
                f"{factory} answered None, and capabilities.{capability} is True",
                plugin=self._plugin_origin,
                why="SGLang has no implementation of its own for an out-of-tree device",
                fix=f"return a class, or leave {capability} False",
            )

    def apply_server_args_defaults(self, server_args: Any) -> None:
        refuse_after_failure()
        if self.is_out_of_tree():  # type: ignore[attr-defined]
            lora.choose_backend(server_args, self)
        else:
            compiled_libraries.choose_defaults(server_args, self)
        super().apply_server_args_defaults(server_args)  # type: ignore[misc]
        if self.get_attention_backends():
            try:
                default = self.get_default_attention_backend()  # type: ignore[attr-defined]
            except NotImplementedError:
                return  # the platform's backends remain selectable by name; SGLang chooses a default of its own
            choose_attention_backend(server_args, default)

    def init_backend(self) -> None:
        refuse_after_failure()
        super().init_backend()  # type: ignore[misc]
        self._register_attention_backends()
        FusedOp.refuse_other_keys(self, self._plugin_origin)
        register_fused_ops(self.get_dispatch_key_name(), self._plugin_origin)  # type: ignore[attr-defined]

    def _register_attention_backends(self) -> None:
        from sglang.srt.layers.attention.attention_registry import register_attention_backend

        for name, factory in self.get_attention_backends().items():
            register_attention_backend(name)(_host_factory(factory, self._plugin_origin))


@functools.cache
def _outer(version: str) -> type:
    """`_HostFacing`, with the older method names that this release of SGLang calls."""
    return type("_HostFacing", (_HostFacing,), {"__module__": __name__, **older_methods(version)})


def _host_factory(factory: Any, origin: PluginOrigin | None) -> Callable[[Any], Any]:
    if isinstance(factory, type):
        return parts.rebase_attention_backend(factory, origin)
    return factory  # type: ignore[no-any-return]


def _as_host_capabilities(ours: Any) -> Any:
    import msgspec
    from sglang.srt.platforms.interface import PlatformCapabilities as HostCapabilities

    if isinstance(ours, HostCapabilities):
        return ours
    values = dataclasses.asdict(ours)
    own = [(name, bool, False) for name in values if name not in HostCapabilities.__struct_fields__]
    struct = msgspec.defstruct(
        "PlatformCapabilities", own, bases=(HostCapabilities,), frozen=True, kw_only=True
    )
    return struct(**values)


ADAPTER = RuntimeAdapter(
    "sglang",
    LLM_RUNTIME,
    platform_base="sglang.srt.platforms.interface:SRTPlatform",
    rebase_platform=rebase_platform,
)
"""SGLang's LLM runtime as the host."""
