"""The entry point of core's general plugin: `launch.load`, or a refusal if core's installation is damaged."""

from __future__ import annotations

from sglang_platform.core.discovery.damaged_install import refusing_without_core

with refusing_without_core():
    from sglang_platform.core.sglang.start.launch import load

__all__ = ["load"]
