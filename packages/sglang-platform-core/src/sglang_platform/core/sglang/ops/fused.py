"""Hook that uses the registered forwards of fused ops wherever SGLang chooses an op's forward."""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.ops.fused_op import FusedOp, FusedOpEntry, contract_ops, or_else
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import facts
from sglang_platform.core.spelling import nearest

__all__ = ["register_fused_ops"]

Forward = Callable[..., Any]

_logger = logging.getLogger(__name__)

_forwards: dict[str, Forward] = {}
"""The forward of each op, by class name; the module of the class may not be loaded yet, or ever."""

_COMPUTES = ("forward", "forward_native", "apply")
"""Methods that a subclass does not override if it computes the same."""

_CLASS = re.compile(rb"^class (\w+)\(", re.MULTILINE)

_OWN_FORWARD = "its class has a `forward` of its own, which asks for none"


def register_fused_ops(dispatch_key: str, origin: PluginOrigin | None = None) -> list[str]:
    """Install every forward registered for this key; returns the names of the ops that SGLang may ask for.

    SGLang looks forwards up by the exact class, and only for out-of-tree platforms. Here a forward also serves
    subclasses that compute the same, and platforms that keep their CUDA or ROCm identity.
    """
    base = load(facts().op_class)
    live = {cls.__name__: cls for cls in _below(base)}
    served = [entry for entry in FusedOp.registered(dispatch_key) if _is_there(entry, base, live, origin)]
    _forwards.clear()
    _forwards.update({entry.name: _CALLED_AS.get(entry.op, _as_is)(entry.forward) for entry in served})
    if served:
        target = f"{base.__module__}:{base.__qualname__}.{facts().op_choice}"
        HookRegistry.unregister(target, _choose)
        required(target, _choose, HookType.AROUND, without="the platform's fused ops are left aside")
        HookRegistry.apply_hooks()
    return [entry.op for entry in served]


def _choose(original: Any, op: Any) -> Any:
    forward = _forward_for(type(op))
    own = original(op)
    # Not a bound method: code compiled by torch would look the forward up on the op by the method's name.
    return own if forward is None else or_else(partial(forward, op), own)


def _forward_for(cls: type) -> Forward | None:
    """The forward of the nearest base class with one; None if `cls` computes something else or is registered with the
    host."""
    for base in cls.__mro__:
        forward = _forwards.get(base.__name__)
        if forward is not None:
            same = all(getattr(cls, name, None) is getattr(base, name, None) for name in _COMPUTES)
            return forward if same and not _is_registered_with_host(cls) else None
    return None


def _is_registered_with_host(cls: type) -> bool:
    from sglang.srt.platforms import current_platform

    registry = cls._oot_forward_registry  # type: ignore[attr-defined]
    return cls in registry.get(current_platform.get_dispatch_key_name(), {})


def _is_there(entry: FusedOpEntry, base: type, live: Mapping[str, type], origin: PluginOrigin | None) -> bool:
    """True if SGLang may ask for the forward; logs a warning if its op does not exist here or has its own forward."""
    name = entry.name
    if name in live:
        why = "" if live[name].forward is base.forward else _OWN_FORWARD  # type: ignore[attr-defined]
    elif entry.op_cls is not None or name in _defined_classes(base.__module__.partition(".")[0]):
        why = ""
    else:
        close = nearest(name, {*live, *contract_ops()})
        why = f"it has no such op; {f'did you mean {close!r}? ' if close else ''}`sglang-platform host ops` lists them"
    if why:
        _logger.warning(
            "the forward that %s registers for the op %s never runs in SGLang %s: %s",
            origin or "a plugin", name, facts().version, why,
        )  # fmt: skip
    return not why


@functools.cache
def _defined_classes(package: str) -> frozenset[str]:
    """The classes with a base that source files of a loaded package define, whose modules need not be loaded yet."""
    root = Path(str(sys.modules[package].__path__[0]))
    names = (name for path in root.rglob("*.py") for name in _CLASS.findall(path.read_bytes()))
    return frozenset(name.decode() for name in names)


def _below(cls: type) -> Iterator[type]:
    one: type
    for one in cls.__subclasses__():
        yield one
        yield from _below(one)


def _as_is(forward: Forward) -> Forward:
    return forward


def _moe_experts(forward: Forward) -> Forward:
    def host_forward(self: Any, layer: Any, dispatch_output: Any) -> Any:
        from sglang.srt.layers.moe.token_dispatcher import StandardCombineInput

        topk_weights, topk_ids, _ = dispatch_output.topk_output
        config = _Config(self.moe_runner_config)
        hidden = forward(self, layer, dispatch_output.hidden_states, topk_weights, topk_ids, config)
        return hidden if hidden is NotImplemented else StandardCombineInput(hidden_states=hidden)

    return host_forward


def _topk(forward: Forward) -> Forward:
    """Pass the forward's choice to SGLang as a custom routing function: SGLang still moves experts between ranks, masks
    padding rows and records the choice."""

    def host_forward(self: Any, hidden_states: Any, router_logits: Any, **more: Any) -> Any:
        own, config = self.topk_config, _Config(self.topk_config)
        theirs = (
            config.custom_routing_function is not None
            or config.apply_routed_scaling_factor_on_output
            or config.num_shared_topk_slots  # columns of shared experts, which the host's own router appends
            or config.num_fused_shared_experts  # the same before 0.5.23
            or any(value is not None for value in more.values())
        )
        answer = NotImplemented if theirs else forward(self, hidden_states, router_logits, config)
        if answer is NotImplemented:
            return answer
        chosen = {"custom_routing_function": lambda **_: answer, "use_grouped_topk": False}
        self.topk_config = dataclasses.replace(own, correction_bias=None, **chosen)
        try:
            return self.forward_native(hidden_states, router_logits)
        finally:
            self.topk_config = own

    return host_forward


class _Config:
    """The host's MoE configuration; a field that this version does not have yet reads as None."""

    __slots__ = ("_config",)

    def __init__(self, config: Any) -> None:
        self._config = config

    def __getattr__(self, name: str) -> Any:
        if name == "_config" or name.startswith(
            "__"
        ):  # torch's tracer and copies look names up before __init__
            raise AttributeError(name)
        return getattr(self._config, name, None)


_CALLED_AS: dict[str, Callable[[Forward], Forward]] = {"moe.experts": _moe_experts, "moe.topk": _topk}
"""Adapters for ops whose signature in the contract differs from the host's."""
