"""Adds the plugins' architectures to SGLang's model registry."""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import models
from sglang_platform.core.sglang.registration import Feature, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_REGISTRY = "sglang.srt.models.registry:_ModelRegistry"
_REGISTERED = Feature("an architecture of register_model()", lambda launch: bool(models.architectures.ids()))


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Serve registered architectures."""
    only_for(_REGISTERED, f"{_REGISTRY}.resolve_model_cls", _resolve, HookType.AROUND)
    only_for(_REGISTERED, f"{_REGISTRY}.get_supported_archs", _with_ours, HookType.AFTER)


def _resolve(original: Any, registry: Any, architectures: Any) -> Any:
    asked = [architectures] if isinstance(architectures, str) else list(architectures or ())
    for architecture in asked:
        cls = models.load_model(architecture)
        if cls is not None:
            return cls, architecture
    return original(registry, architectures)


def _with_ours(result: Any, registry: Any) -> Any:
    return {*result, *models.architectures.ids()}
