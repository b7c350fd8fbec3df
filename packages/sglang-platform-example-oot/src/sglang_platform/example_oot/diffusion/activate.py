"""The probe for the diffusion runtime; its entry point is in the group `sglang.multimodal_gen.platforms`.

A vendor changes: as in the package's `activate`, the probe and the name of the class.
"""

from __future__ import annotations

import os

from sglang_platform.core import PlatformUnavailable, mm_platform_plugin

__all__ = ["activate"]


@mm_platform_plugin
def activate() -> str | None:
    """Say whether this device is here. As light as the probe of the LLM runtime, and mostly the same function."""
    if os.environ.get("SGLANG_DIFFUSION_PLATFORM_OVERRIDE") != "example_oot":
        raise PlatformUnavailable(
            "the example runs only when it is named: set SGLANG_DIFFUSION_PLATFORM_OVERRIDE=example_oot"
        )
    return "sglang_platform.example_oot.diffusion.platform:ExampleOOTDiffusionPlatform"
