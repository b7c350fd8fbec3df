"""The probe of the acme_b22 plugin."""

import os

from sglang_platform.core import PlatformUnavailable, platform_plugin


_activated = False


@platform_plugin
def activate() -> str | None:
    """The device is here where ACME_B22=1."""
    global _activated
    if _activated:  # once is enough
        return None
    if os.environ.get("ACME_B22") != "1":
        raise PlatformUnavailable("there is no Acme card: set ACME_B22=1")
    _activated = True
    return "acme_b22.platform:AcmePlatform"
