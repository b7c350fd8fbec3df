"""Core's own general plugin, as SGLang's loader finds it: `loading`, or what keeps core from being loaded."""

from __future__ import annotations

from sglang_platform.core.installed.damage import told_as_damage

with told_as_damage():
    from sglang_platform.core.sglang.start.launch import load

__all__ = ["load"]
