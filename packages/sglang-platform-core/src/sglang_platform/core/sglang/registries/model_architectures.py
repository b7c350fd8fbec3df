"""Adds the plugins' architectures to SGLang's model registry, and reports import errors that the registry hides."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from pathlib import Path
from typing import Any

from sglang_platform.core.errors import HostError
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.registries import models
from sglang_platform.core.sglang.registration import Feature, only_for, soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_REGISTRY = "sglang.srt.models.registry:_ModelRegistry"
_PACKAGE = "sglang.srt.models"
_REGISTERED = Feature("an architecture of register_model()", lambda launch: bool(models.architectures.ids()))


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Serve registered architectures, and report why SGLang does not serve one of its own."""
    only_for(_REGISTERED, f"{_REGISTRY}.resolve_model_cls", _resolve, HookType.AROUND)
    only_for(_REGISTERED, f"{_REGISTRY}.get_supported_archs", _with_ours, HookType.AFTER)
    soft(
        f"{_REGISTRY}._raise_for_unsupported", _explain, HookType.BEFORE,
        without="a model whose module fails to import is called not supported, without the cause",
    )  # fmt: skip


def _resolve(original: Any, registry: Any, architectures: Any) -> Any:
    asked = [architectures] if isinstance(architectures, str) else list(architectures or ())
    for architecture in asked:
        cls = models.load_model(architecture)
        if cls is not None:
            return cls, architecture
    _explain(registry, [one for one in asked if one not in registry.models])
    return original(registry, architectures)


def _with_ours(result: Any, registry: Any) -> Any:
    return {*result, *models.architectures.ids()}


def _explain(registry: Any, architectures: Any) -> None:
    """Raise HostError with the cause if one of SGLang's own modules defines an architecture but is not loaded.

    SGLang only logs "Ignore import error", falls back to another implementation, and ends with "not supported".
    """
    asked = [architectures] if isinstance(architectures, str) else list(architectures or ())
    for architecture in asked:
        module = _module_of(architecture)
        if module is None:
            continue
        name = module.rpartition(".")[2]
        if name in models.disabled_modules():
            raise HostError(
                f"model architecture {architecture!r} is switched off",
                why=f"{models.DISABLED_VARIABLE} names {name}",
                fix=f"take it out of {models.DISABLED_VARIABLE}",
            )
        try:
            importlib.import_module(module)
        except Exception as error:
            raise HostError(
                f"model architecture {architecture!r} cannot be loaded: the import of {module} fails",
                why=f"{type(error).__name__}: {error}",
                fix="install what it needs, or serve another model: no other is affected",
            ) from error


def _module_of(architecture: str) -> str | None:
    """The SGLang module whose source defines a class of that name, found without importing it; else None."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.submodule_search_locations is None:
        return None
    for info in pkgutil.iter_modules(package.submodule_search_locations):
        spec = info.module_finder.find_spec(f"{_PACKAGE}.{info.name}", None)
        if not info.ispkg and spec is not None and spec.origin:
            source = Path(spec.origin).read_text(errors="replace")
            if f"class {architecture}(" in source or f"class {architecture}:" in source:
                return f"{_PACKAGE}.{info.name}"
    return None
