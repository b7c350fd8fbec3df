"""Platform classes on this project's contract, checked as they would be when they are created."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion

from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.drift import rows_in_force
from sglang_platform.core.contract.members import defines_contract, kind_of, public_names
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import ContractError, PluginOrigin
from sglang_platform.devtools.doctor.class_shape import ClassShape
from sglang_platform.devtools.doctor.host_source import HostSource

__all__ = ["CARRIED_BY_THE_ADAPTER", "examine_core_class", "refused_class"]

CARRIED_BY_THE_ADAPTER = frozenset(
    {
        "finalize_server_args",
        "get_attention_backends",
        "get_default_lora_backend",
        "get_host_memory_cls",
        "get_memory_saver_cls",
        "get_state_kernels",
        "get_token_bitmask_fn",
        "get_transfer_engine_cls",
        "initialize_device",
        "stub_modules",
    }
)
"""The contract's methods that the host adapter calls at the right moment; no SGLang calls them."""


def refused_class(error: ContractError, origin: PluginOrigin) -> Finding:
    """The finding for a class that the contract refuses: dead names and drifted signatures, listed."""
    return Finding("contract-broken", "problem", error.what, origin, error.why, error.fix)


def examine_core_class(shape: ClassShape, origin: PluginOrigin, host: HostSource | None) -> Iterator[Finding]:
    """The findings on older names that are still supported, and on overrides that the installed SGLang never calls."""
    for message in shape.warnings:
        what, _, rest = message.partition(". ")
        if not rest:
            what, _, rest = message.partition(": ")
        yield Finding("override-older-name", "warning", what, origin, "it is served, with a warning", rest)
    if host is None or host.platform_class is None or not issubclass(shape.cls, SRTPlatform):
        return
    called = host.names | CARRIED_BY_THE_ADAPTER | _served_under_older_names(host)
    for name in sorted(_overridden_methods(shape.cls) - called):
        if not host.asks_for(name):
            yield Finding(
                "override-not-called",
                "note",
                f"{host} does not call {shape.cls.__qualname__}.{name}()",
                origin,
                f"the contract has {name}, the interface of this SGLang has not",
                "use a later SGLang where it matters; the class is right as it is",
            )


def _overridden_methods(cls: type) -> set[str]:
    contract = public_names(SRTPlatform) | public_names(DeviceMixin)
    return {
        name
        for klass in cls.__mro__
        if issubclass(klass, DeviceMixin) and not defines_contract(klass)
        for name, value in vars(klass).items()
        if name in contract and kind_of(value) in ("method", "classmethod", "staticmethod")
    }


def _served_under_older_names(host: HostSource) -> set[str]:
    """Current names that the adapter serves under the older names this host calls."""
    try:
        return {row.member for row in rows_in_force(host.version)}
    except InvalidVersion:
        return set()
