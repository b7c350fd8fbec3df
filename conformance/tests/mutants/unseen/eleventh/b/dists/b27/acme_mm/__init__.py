from pathlib import Path

from sglang_platform.core import PlatformUnavailable, mm_platform_plugin, platform_plugin


def _probe():
    if not Path("/dev/zero").exists():
        raise PlatformUnavailable("there is no /dev/zero: load the driver")


@platform_plugin
def activate():
    _probe()
    return "acme_mm.platform:AcmePlatform"


@mm_platform_plugin
def activate_mm():
    _probe()
    return "acme_mm.platform:AcmeMMPlatform"
