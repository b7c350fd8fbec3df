"""The parts of a DeepSeek-V4-like model, on all of core's registries. `register` is the entry point; it imports neither
torch nor SGLang, and a part that does is imported when it is used."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from deepseek_v4_plugin.page_follower import FOLLOWER, PageFollower
from deepseek_v4_plugin.pool_kind import KIND
from deepseek_v4_plugin.switches import Switches
from sglang_platform.core.registries import (
    register_forward_hook,
    register_kv_pool_factory,
    register_model,
    register_pool_kind,
    register_quant_wrapper,
    register_request_coordinator,
)

__all__ = ["ARCHITECTURE", "FAMILY", "register"]

ARCHITECTURE = "DeepseekV4ShapedForCausalLM"
FAMILY = (ARCHITECTURE, "DeepseekV3ForCausalLM")
"""The architectures whose pools are this plugin's."""


def register() -> None:
    """Called by `load_plugins()` in every process of the host. Registers what is switched on, and nothing else."""
    on = Switches.read()
    if on == Switches():
        return
    if on.model:
        register_model(ARCHITECTURE, "deepseek_v4_plugin.deepseek_v4_shaped:DeepseekV4ShapedForCausalLM")
    if on.mxfp4:
        register_quant_wrapper("v4_mxfp4", _experts_of, _mxfp4, priority=10)
    if on.host_experts:
        register_quant_wrapper("v4_expert_split", _experts_of, partial(_split, on.host_experts), priority=20)
    if on.token_pool or on.hot_pages:
        register_pool_kind(KIND)
        if on.token_pool:
            register_kv_pool_factory("v4_token_pool", _is_family, _token_pool, priority=50)
        if on.hot_pages:
            factory = partial(_hierarchical_pool, on.hot_pages)
            register_kv_pool_factory("v4_hierarchical_pool", _is_family, factory, priority=40)
    if on.events:
        register_forward_hook(FOLLOWER, PageFollower())
    register_request_coordinator("v4_pages", _coordinator, model="deepseek_v4_plugin")


def _experts_of(layer: Any, server_args: Any) -> dict[str, Any] | None:
    return {} if getattr(layer, "num_experts", 0) and hasattr(layer, "w13_weight") else None


def _mxfp4(layer: Any, method: Any, ctx: dict[str, Any]) -> Any:
    from deepseek_v4_plugin.mxfp4_experts import MXFP4Experts

    return MXFP4Experts(method)


def _split(on_host: int, layer: Any, method: Any, ctx: dict[str, Any]) -> Any:
    from deepseek_v4_plugin.expert_split import ExpertSplit

    return ExpertSplit(method, on_host)


def _is_family(model_config: Any, server_args: Any) -> bool:
    return any(one in FAMILY for one in model_config.hf_config.architectures or ())


def _token_pool(kind: str) -> type | None:
    from deepseek_v4_plugin.token_pool import V4TokenPool

    return V4TokenPool if kind == "mla" else None


@cache
def _hierarchical_pool(hot_pages: int, kind: str) -> type | None:
    from deepseek_v4_plugin.hierarchical_pool import HierarchicalPool

    return type("HierarchicalPool", (HierarchicalPool,), {"hot_pages": hot_pages}) if kind == "mla" else None


def _coordinator(scheduler: Any) -> Any:
    from deepseek_v4_plugin.coordinator import PageCoordinator

    return PageCoordinator(scheduler)
