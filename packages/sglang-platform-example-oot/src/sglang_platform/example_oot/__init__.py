"""The example device: a complete out-of-tree platform for SGLang that runs on any CPU.

A vendor changes: the probe below, and the name of the class.
"""

from __future__ import annotations

import os

from sglang_platform.core import PlatformUnavailable, platform_plugin

__all__ = ["activate"]


@platform_plugin
def activate() -> str | None:
    """Say whether this device is here. Light: nothing heavy is imported, no device context is made.

    A real device looks for its driver (`/dev/...`, its management library) and gives the reason when it is not
    there. A CPU is always here, so the example asks to be named, or it would take over every machine it is
    installed on.
    """
    if os.environ.get("SGLANG_PLATFORM") != "example_oot":
        raise PlatformUnavailable("the example runs only when it is named: set SGLANG_PLATFORM=example_oot")
    return "sglang_platform.example_oot.platform:ExampleOOTPlatform"
