"""What each process of SGLang does first: ask for the platform, load the plugins. Prints whose platform it is."""

import logging

logging.basicConfig(level=logging.CRITICAL)  # what SGLang logs of a failure is not what is looked at

from sglang.srt.platforms import current_platform  # noqa: E402

name = current_platform.device_name

from sglang.srt.plugins import load_plugins  # noqa: E402

load_plugins()
print("serves on", name)
