"""How a platform's parts are built, by host: on core's own base classes, or as SGLang builds them."""

from __future__ import annotations

from pathlib import Path

from sglang_platform.conformance.parts.base import Parts
from sglang_platform.conformance.parts.core import CoreParts
from sglang_platform.conformance.parts.sglang import SGLangParts
from sglang_platform.conformance.plugin import CheckedPlugin

__all__ = ["Parts", "parts_for"]


def parts_for(host: str, plugin: CheckedPlugin, scratch: Path) -> Parts:
    """The parts of a plugin's platform in this host, "none" or "sglang"."""
    return SGLangParts(plugin, scratch) if host == "sglang" else CoreParts(plugin, scratch)
