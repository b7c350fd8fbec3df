"""Core's own general plugin, as SGLang's loader finds it: `loading`, or what keeps core from being loaded."""

from __future__ import annotations

from sglang_platform.core.discovery.damaged_install import refusing_without_core

with refusing_without_core():
    from sglang_platform.core.sglang.start.launch import load

__all__ = ["load"]
