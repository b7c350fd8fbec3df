"""Importing the package sets variables of torch for the whole process and its children, whoever is chosen later.
Source: vllm-plugin-FL #215, torch_npu wheels; vendors write TORCH_DEVICE_BACKEND_AUTOLOAD=0 at the top of the package."""
import os
from pathlib import Path

from sglang_platform.core import PlatformUnavailable, platform_plugin

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


@platform_plugin
def activate():
    if not Path("/dev/zero").exists():
        raise PlatformUnavailable("there is no /dev/zero: load the driver")
    return "acme_env.platform:AcmePlatform"
