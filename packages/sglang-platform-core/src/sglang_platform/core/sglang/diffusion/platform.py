"""A plugin's platform as the diffusion runtime's: re-bases its class and translates its results for SGLang."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from sglang_platform.core.attention.diffusion import DiffusionAttention
from sglang_platform.core.discovery.kind import DIFFUSION
from sglang_platform.core.errors import HostError, PluginOrigin
from sglang_platform.core.host import DIFFUSION_RUNTIME
from sglang_platform.core.sglang.diffusion import attention, device_module
from sglang_platform.core.sglang.host_classes import check_part
from sglang_platform.core.sglang.start.platform_class import OneObject, RuntimeAdapter, rebase_for

__all__ = ["ADAPTER", "HOST_ATTENTION", "HOST_COMMUNICATOR", "rebase_platform"]

_RUNTIME = "sglang.multimodal_gen.runtime"
HOST_ATTENTION = f"{_RUNTIME}.layers.attention.backends.sdpa.SDPABackend"
HOST_COMMUNICATOR = (
    f"{_RUNTIME}.distributed.device_communicators.base_device_communicator.DeviceCommunicatorBase"
)


def rebase_platform(cls: type, origin: PluginOrigin) -> type:
    """`cls` re-based on SGLang's `Platform`. A class derived from `Platform` is returned unchanged.

    SGLang's base has class methods, but SGLang calls all of them on the one instance of our class, so the contract's
    instance methods replace them. SGLang compares members of its own enum by identity, so `_enum` is set to its member.
    """
    from sglang.multimodal_gen.runtime.platforms.interface import Platform, PlatformEnum

    rebased = rebase_for(cls, origin, Platform, outer=_HostFacing, metaclass=_OneDiffusionPlatform)
    if rebased is not cls:
        rebased._enum = PlatformEnum[cls._enum.name]  # type: ignore[attr-defined]
    return rebased


class _OneDiffusionPlatform(OneObject):
    kind = DIFFUSION


class _HostFacing:
    """Precedes the vendor's class in the MRO: calls it through `super()` and converts results for SGLang."""

    _plugin_origin: PluginOrigin | None = None
    _host_attention = HOST_ATTENTION
    _host_communicator = HOST_COMMUNICATOR

    def get_attn_backend_cls_str(self, selected_backend: Any, head_size: int, dtype: Any) -> str:
        place = super().get_attn_backend_cls_str(selected_backend, head_size, dtype)  # type: ignore[misc]
        cls = self._named_class("get_attn_backend_cls_str()", place)
        if isinstance(cls, type) and issubclass(cls, DiffusionAttention):
            return attention.place_of_backend(cls)
        from sglang.multimodal_gen.runtime.layers.attention.backends.attention_backend import AttentionBackend

        check_part(
            cls, (DiffusionAttention, AttentionBackend), "get_attn_backend_cls_str()", self._plugin_origin
        )
        return str(place)

    def get_device_communicator_cls(self) -> str:
        return self._communicator("get_device_communicator_cls")

    def get_all_to_all_communicator_cls(self) -> str:
        return self._communicator("get_all_to_all_communicator_cls")

    def init_backend(self) -> None:
        device_module.complete(self)
        super().init_backend()  # type: ignore[misc]

    def _communicator(self, method: str) -> str:
        place = getattr(super(), method)()
        cls = self._named_class(f"{method}()", place)
        check_part(cls, (resolve_name(HOST_COMMUNICATOR),), f"{method}()", self._plugin_origin)
        return str(place)

    def _named_class(self, factory: str, place: Any) -> Any:
        if not isinstance(place, str) or not place:
            raise HostError(
                f"{factory} answered {place!r}, which names no class",
                plugin=self._plugin_origin,
                why='the diffusion runtime takes the name of a class, "pkg.mod.Class"',
                fix="return such a name",
            )
        try:
            return resolve_name(place)
        except (ImportError, AttributeError, ValueError) as error:
            raise HostError(
                f"{factory} names {place}, which cannot be imported",
                plugin=self._plugin_origin,
                why=f"{type(error).__name__}: {error}",
                fix="correct the name, or the import of its module",
            ) from error


ADAPTER = RuntimeAdapter(
    "SGLang's diffusion runtime",
    DIFFUSION_RUNTIME,
    platform_base="sglang.multimodal_gen.runtime.platforms.interface:Platform",
    rebase_platform=rebase_platform,
)
"""SGLang's diffusion runtime as the host."""
