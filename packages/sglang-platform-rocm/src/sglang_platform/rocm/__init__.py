"""SGLang on AMD GPUs, through the sglang-platform contract."""

from __future__ import annotations

from sglang_platform.core import platform_plugin
from sglang_platform.rocm import probe

__all__ = ["activate"]


@platform_plugin
def activate() -> str | None:
    """The location of the platform class, if this machine has an AMD GPU that the installed torch can drive.

    Raises PlatformUnavailable with the reason otherwise. Called in every process that looks for a platform; imports no
    torch and creates no device context, so that the process may still fork.
    """
    why = probe.why_unavailable()
    if why is not None:
        raise why
    return "sglang_platform.rocm.platform:RocmSRTPlatform"
