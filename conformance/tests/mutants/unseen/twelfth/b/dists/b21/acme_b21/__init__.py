"""The probe of the acme_b21 plugin."""

import os

from sglang_platform.core import PlatformUnavailable, platform_plugin


@platform_plugin
def activate() -> str | None:
    """The device is here where ACME_B21=1."""
    # torch must not open the other cards while it is imported
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if os.environ.get("ACME_B21") != "1":
        raise PlatformUnavailable("there is no Acme card: set ACME_B21=1")
    return "acme_b21.platform:AcmePlatform"
