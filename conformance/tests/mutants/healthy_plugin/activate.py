from sglang_platform.core import platform_plugin


@platform_plugin
def activate():
    return "mutant_platform.platform:Platform"
