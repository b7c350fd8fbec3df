"""The probe of the acme_b28 plugin."""

import os

from sglang_platform.core import PlatformUnavailable, mm_platform_plugin


@mm_platform_plugin
def activate() -> str | None:
    """The device is here where ACME_B28=1."""
    if os.environ.get("ACME_B28") != "1":
        raise PlatformUnavailable("there is no Acme card: set ACME_B28=1")
    return "acme_b28.diffusion:DiffusionPlatform"
