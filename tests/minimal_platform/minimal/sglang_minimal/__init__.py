from sglang_platform.core import platform_plugin


@platform_plugin
def activate() -> str:
    return "sglang_minimal.platform:MinimalPlatform"
