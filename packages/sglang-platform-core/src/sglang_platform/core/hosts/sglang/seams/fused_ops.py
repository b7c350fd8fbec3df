"""Forwards registered for core's fused ops, carried to SGLang's op classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang_platform.core.hooks.registry import HookRegistry, HookType
from sglang_platform.core.hosts.sglang.checked import load
from sglang_platform.core.hosts.sglang.versions import facts
from sglang_platform.core.ops.fused_op import FusedOp, or_else

__all__ = ["register_fused_ops"]

Forward = Callable[..., Any]


def register_fused_ops(dispatch_key: str, *, in_tree: bool = False) -> list[str]:
    """Register every forward of this key with the host; returns the names of the ops carried over.

    The host looks registered forwards up for out-of-tree platforms alone; `in_tree` is for one that keeps its CUDA or
    ROCm identity, whose ops are then asked for through a hook.
    """
    base = load(facts().op_class)
    forwards = {}
    for entry in FusedOp.registered(dispatch_key):
        where, adapt = _HOST_OPS[entry.op_cls.op]
        forwards[load(where)] = adapt(entry.forward)
    if in_tree and forwards:
        _look_up_in_tree(base, forwards)
    if not in_tree:
        for cls, forward in forwards.items():
            base.register_oot_forward(cls, _or_native(forward), dispatch_key)
    return [entry.op_cls.op for entry in FusedOp.registered(dispatch_key)]


def _look_up_in_tree(base: type, forwards: dict[type, Forward]) -> None:
    def choose(original: Any, op: Any) -> Any:
        forward = forwards.get(type(op))
        return original(op) if forward is None else or_else(forward.__get__(op), original(op))

    target = f"{base.__module__}:{base.__qualname__}.{facts().op_choice}"
    HookRegistry.register(target, choose, HookType.AROUND)
    HookRegistry.apply_hooks()


def _or_native(forward: Forward) -> Forward:
    def host_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return or_else(forward.__get__(self), self.forward_native)(*args, **kwargs)

    return host_forward


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


class _Config:
    """The host's MoE configuration; a field that this version does not have yet reads as None."""

    __slots__ = ("_config",)

    def __init__(self, config: Any) -> None:
        self._config = config

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name, None)


_HOST_OPS: dict[str, tuple[str, Callable[[Forward], Forward]]] = {
    "layernorm.rms_norm": ("sglang.srt.layers.layernorm:RMSNorm", _as_is),
    "activation.silu_and_mul": ("sglang.srt.layers.activation:SiluAndMul", _as_is),
    "rotary.rotary_embedding": ("sglang.srt.layers.rotary_embedding.base:RotaryEmbedding", _as_is),
    "moe.experts": ("sglang.srt.layers.quantization.unquant:UnquantizedFusedMoEMethod", _moe_experts),
}
