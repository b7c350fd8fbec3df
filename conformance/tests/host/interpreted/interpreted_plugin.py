"""What the entry points of the platforms with interpreted kernels name."""

from sglang_platform.core import platform_plugin


@platform_plugin
def cuda() -> str:
    return "interpreted_platforms:InterpretedCuda"


@platform_plugin
def rocm() -> str:
    return "interpreted_platforms:InterpretedRocm"
