"""What an out-of-tree platform must answer before SGLang can start on it, found without asking a device.

A class may be incomplete while it is a base of others, so this is asked of the platform that is about to serve.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.factories import wrong_backends
from sglang_platform.core.contract.members import contract_classes, defines_contract
from sglang_platform.core.contract.source import place_in_brackets
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.correction import is_plugins
from sglang_platform.core.errors import ContractError, PluginOrigin

__all__ = ["class_to_complete", "incomplete"]

_ASKED_AT_EVERY_LAUNCH = ("get_device", "get_device_total_memory", "get_current_memory_usage")
_ANSWERS = "TorchDeviceMixin (sglang_platform.core.portable.torch.device)"


def incomplete(cls: type, platform: Any, origin: PluginOrigin | None) -> ContractError | None:
    """The error that lists everything missing in `cls`, one line each; None if SGLang can start.

    cls: the vendor's class, not re-based. platform: its instance, which may set values of its own. A platform with an
    identity that SGLang knows is complete: SGLang answers for that device.
    """
    if not issubclass(cls, SRTPlatform) or platform._enum.name not in ("OOT", "UNSPECIFIED"):
        return None
    lines = list(_missing(cls, platform))
    if not lines:
        return None
    return ContractError(
        f"SGLang cannot start on {cls.__module__}.{cls.__qualname__}: the class is incomplete",
        plugin=origin,
        fix="\n".join(lines),
    )


def class_to_complete(cls: type, of: type = SRTPlatform) -> str:
    """The vendor's class for members of `of` (the device mixin for `DeviceMixin`), with file and line of its class
    statement."""
    for klass in cls.__mro__:
        device_only = of is DeviceMixin and issubclass(klass, SRTPlatform)
        if not device_only and contract_classes(klass) and is_plugins(klass.__module__):
            cls = klass
            break
    return f"class {cls.__qualname__}{place_in_brackets(cls, '')}"


def _missing(cls: type, platform: Any) -> Iterator[str]:
    device, whole = class_to_complete(cls, DeviceMixin), class_to_complete(cls)
    if platform._enum.name == "UNSPECIFIED":
        yield f"{device}: write _enum = PlatformEnum.OOT; SGLang asks no other platform of a plugin"
    if "device_type" not in vars(platform) and _is_left_out(cls, "device_type"):
        yield f'{device}: write device_type = "...", the type of torch.device that tensors live on'
    elif _is_left_out(cls, "initialize_device"):
        yield from _unknown_to_torch(cls, device, platform.device_type)
    methods = [f"{name}()" for name in _ASKED_AT_EVERY_LAUNCH if _is_left_out(cls, name)]
    if methods:
        yield f"{device}: derive it from {_ANSWERS}, or define {', '.join(methods)}"
    if platform.capabilities.graph_capture and _is_left_out(cls, "get_graph_runner_cls"):
        yield f"{whole}: return a class from get_graph_runner_cls(), or leave out graph_capture=True"
    own = platform.get_attention_backends()
    wrong = wrong_backends(own)
    if wrong:
        name = "get_attention_backends"
        yield wrong + place_in_brackets(next(klass for klass in cls.__mro__ if name in vars(klass)), name)
    elif len(own) > 1 and _is_left_out(cls, "get_default_attention_backend"):
        yield f"{whole}: return one of {', '.join(own)} from get_default_attention_backend()"


def _is_left_out(cls: type, name: str) -> bool:
    return defines_contract(next(klass for klass in cls.__mro__ if name in vars(klass)))


def _unknown_to_torch(cls: type, device: str, device_type: str) -> Iterator[str]:
    try:
        import torch  # not at the top: the command that asks here may have no torch
    except Exception:  # noqa: BLE001 - a torch that cannot be imported says so itself, where it is used
        return
    try:
        torch.get_device_module(device_type)
    except RuntimeError:
        registered = torch._C._get_privateuse1_backend_name()
        if registered == "privateuseone":
            yield (
                f"{device}: import the torch plugin that registers {device_type!r} with torch at the top of "
                f"{cls.__module__}; init_backend() runs too late"
            )
        else:
            yield f"{device}: write device_type = {registered!r}; torch knows that device, and no {device_type!r}"
