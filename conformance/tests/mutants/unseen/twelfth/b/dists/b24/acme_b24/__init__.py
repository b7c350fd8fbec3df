"""The probe of the acme_b24 plugin."""

import os

from sglang_platform.core import PlatformUnavailable, platform_plugin


@platform_plugin
def activate() -> str | None:
    """The device is here where ACME_B24=1."""
    if os.environ.get("ACME_B24") != "1":
        raise PlatformUnavailable("there is no Acme card: set ACME_B24=1")
    return "acme_b24.platform:AcmePlatform"


def register() -> None:
    """The general plugin: experts in 8 bits."""
    from acme_b24 import experts
    from sglang_platform.core.registries.quant import register_quant_wrapper

    register_quant_wrapper("acme_int8_experts", experts.wanted, experts.wrapped)
