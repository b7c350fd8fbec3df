"""A worked example of core's registries. `register` is the entry point; a part is imported when it is used."""

from __future__ import annotations

import os
from typing import Any

from sglang_platform.core.registries import (
    register_forward_hook,
    register_kv_pool_factory,
    register_quant_wrapper,
    register_request_coordinator,
)

__all__ = ["ARCHITECTURE", "SWITCH", "register"]

ARCHITECTURE = "Qwen3MoeForCausalLM"
SWITCH = "REGISTRIES_PLUGIN"


def register() -> None:
    """Called by `load_plugins()` in every process of the host. Off by default, like every switch of a plugin."""
    if os.environ.get(SWITCH) != "1":
        return
    from registries_plugin.admission import AdmissionCounter
    from registries_plugin.trace import LifecycleTrace

    register_quant_wrapper("int8_experts", _is_expert_layer, _int8_experts, priority=10)
    register_quant_wrapper("call_log", _is_expert_layer, _call_log, priority=20)
    register_kv_pool_factory("counted_pool", _is_our_model, _counted_pool)
    register_request_coordinator("admission_counter", AdmissionCounter)
    register_forward_hook("lifecycle_trace", LifecycleTrace())


def _is_expert_layer(layer: Any, server_args: Any) -> dict[str, int] | None:
    experts = getattr(layer, "num_experts", None)
    return {"experts": experts} if experts and hasattr(layer, "w13_weight") else None


def _int8_experts(layer: Any, method: Any, ctx: dict[str, int]) -> Any:
    from registries_plugin.int8_experts import Int8Experts

    return Int8Experts(method)


def _call_log(layer: Any, method: Any, ctx: dict[str, int]) -> Any:
    from registries_plugin.call_log import CallLog

    return CallLog(method, layer)


def _is_our_model(model_config: Any, server_args: Any) -> bool:
    return ARCHITECTURE in (model_config.hf_config.architectures or ())


def _counted_pool(kind: str) -> type | None:
    if kind != "mha":
        return None
    from registries_plugin.kv_pool import CountedPool

    return CountedPool
