"""A platform that is here when it is named."""

from __future__ import annotations

import os

from sglang_platform.core import PlatformUnavailable, platform_plugin


@platform_plugin
def activate() -> str | None:
    if os.environ.get("SGLANG_PLATFORM") != "older_plugin":
        raise PlatformUnavailable("set SGLANG_PLATFORM=older_plugin")
    return "older_plugin.platform:OlderPlatform"
