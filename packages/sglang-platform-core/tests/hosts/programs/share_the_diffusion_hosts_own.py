"""Shows that without a plugin core's platform is the diffusion runtime's own."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import sglang.multimodal_gen.runtime.platforms as host

from sglang_platform.core import current_mm_platform as ours

assert ours.device_name == "CPU"
assert ours.is_cpu()
assert type(ours) is type(host.current_platform)
from sglang.multimodal_gen.runtime.platforms.plugins import apply_plugin_hooks

apply_plugin_hooks()  # core's own plugin runs, and finds both on one platform
