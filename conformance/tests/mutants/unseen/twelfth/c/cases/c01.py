"""Core's own communicator, unchanged; optional hooks over several lines; declarations in a str enum and a property.

Permitted by: DeviceMixin.get_communicator_class ("The class that carries a group's collectives") and
TorchGroupCommunicator ("All of the contract's collectives"); docs/hooks.md: "A hook with `required=False` that cannot
be applied is a warning, once, and a row of the report"; SRTPlatform.capabilities ("A property where it depends on the
device found") and contract.checks (a declared value may be a property).

level: distributed, contract
"""

from __future__ import annotations

import enum
from functools import cache, cached_property
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform
from sglang_platform.core import HookRegistry, HookType, PlatformCapabilities


class _Stored(enum.StrEnum):
    """The types of the cache. A member is a str."""

    FULL = "float32"
    BRAIN = "bfloat16"
    HALF = "float16"
    EIGHT = "float8_e4m3fn"
    EIGHT_WIDE = "float8_e5m2"


def _seen(result: Any, *args: Any, **kwargs: Any) -> None:
    """Looks, and keeps the result."""


@cache
def _register_once() -> None:
    """`init_backend()` may be called for each model."""
    HookRegistry.register(
        "sglang.srt.utils.common:get_device",
        _seen,
        HookType.AFTER,
        required=False,
        without="the choice of a device is not looked at",
    )
    HookRegistry.register(
        "sglang.srt.layers.attention.of_another_release:prepare",
        _seen,
        hook_type=HookType.AFTER,
        required=False,
        order=3,
        without=(
            "nothing: releases that lack it"
            " prepare elsewhere"
        ),
    )


class _Gloo:
    """The mixin that says how processes talk; the communicator itself knows nothing of it."""

    def get_torch_distributed_backend_str(self) -> str:
        return "gloo"

    def synchronize(self) -> None:
        """Work is done when a call returns."""


class Platform(_Gloo, ReferencePlatform):
    """The reference's parts, core's collectives."""

    supported_kv_dtypes = tuple(_Stored)

    @cached_property
    def capabilities(self) -> PlatformCapabilities:  # type: ignore[override]
        return PlatformCapabilities(
            graph_capture=True,
            fp8=True,
        )

    def get_communicator_class(self) -> type | None:
        from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

        return TorchGroupCommunicator

    def init_backend(self) -> None:
        super().init_backend()
        _register_once()
