"""Connects core's registries to SGLang: one module per registry, with `register_hooks`. All modules here are loaded."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the hooks of every registry, in the order of the module names."""
    for found in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        importlib.import_module(f"{__name__}.{found.name}").register_hooks(platform, host)
