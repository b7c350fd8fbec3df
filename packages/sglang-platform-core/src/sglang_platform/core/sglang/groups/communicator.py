"""Adds the platform's communicator to SGLang's groups by hooks, since no release asks for one (0.5.11 to 0.5.23).

SGLang implements two collectives with its NCCL wrapper only (`all_gatherv`, `reduce_scatterv`, in
`distributed/parallel_state.py`: "pynccl is required"). On a device without that wrapper, core's implementation in
`torch.distributed` serves them if the platform's communicator does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.distributed.communicator import COLLECTIVES
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import GROUP_COORDINATOR
from sglang_platform.core.sglang.registration import argument, only_for, required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_KEPT = "_sglang_platform_communicator"
_PORTABLE = "_sglang_platform_portable_communicator"
_NCCL_ONLY = ("all_gatherv", "reduce_scatterv")
_RANKS_APART = argument("enable_dp_attention")
"""Only SGLang's data-parallel attention calls those two without checking for NCCL first."""
_NO_COMMUNICATOR = "the platform's communicator is left aside"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Give each group of several ranks a communicator, and route the collectives that it implements to it."""
    cls = platform.get_communicator_class()
    if cls is not None:

        def equip(result: Any, group: Any, *args: Any, **kwargs: Any) -> None:
            if group.world_size > 1:
                setattr(group, _KEPT, _made(cls, group))

        required(f"{GROUP_COORDINATOR}.__init__", equip, HookType.AFTER, without=_NO_COMMUNICATOR)
    for name in COLLECTIVES:
        if name == "all_to_all_single" and not host.has_all_to_all:
            continue
        target = f"{GROUP_COORDINATOR}.{name}"
        if hasattr(cls, name):
            required(target, _routed(name), HookType.AROUND, without=_NO_COMMUNICATOR)
        elif name in _NCCL_ONLY:
            only_for(_RANKS_APART, target, _routed(name), HookType.AROUND)


def _made(cls: Any, group: Any) -> Any:
    return cls(
        cpu_group=group.cpu_group,
        device=group.device,
        device_group=group.device_group,
        unique_name=group.unique_name,
    )


def _carrier(name: str, group: Any) -> Any:
    """The communicator for a collective of this group; None if SGLang's own code runs it."""
    communicator = getattr(group, _KEPT, None)
    if hasattr(communicator, name) and not getattr(communicator, "disabled", False):
        return communicator
    if name in _NCCL_ONLY and group.pynccl_comm is None:
        return _portable(group)
    return None


def _portable(group: Any) -> Any:
    made = getattr(group, _PORTABLE, None)
    if made is None:
        # Imported here: it loads torch, which the launcher does not need.
        from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator

        made = _made(TorchGroupCommunicator, group)
        setattr(group, _PORTABLE, made)
    return made


def _routed(name: str) -> Callable[..., Any]:
    def collective(original: Any, group: Any, *args: Any, **kwargs: Any) -> Any:
        communicator = _carrier(name, group)
        if communicator is None or kwargs.get("output_tensor_list") is not None:
            return original(group, *args, **kwargs)
        # Calls with parameters outside the contract (an output list, a stream) go to SGLang.
        if name == "all_gather" and len(args) > 2:
            return original(group, *args, **kwargs)
        kwargs.pop("output_tensor_list", None)
        return getattr(communicator, name)(*args, **kwargs)

    def gather_each(original: Any, group: Any, input_: Any, sizes: Any = None, output: Any = None) -> Any:
        communicator = _carrier(name, group)
        if communicator is None:
            more = () if output is None else (output,)  # older releases lack this parameter
            return original(group, input_, sizes, *more)
        each = input_ if isinstance(input_, list | tuple) else [input_]
        return [communicator.all_gatherv(one, sizes, output) for one in each]

    return gather_each if name == "all_gatherv" else collective
