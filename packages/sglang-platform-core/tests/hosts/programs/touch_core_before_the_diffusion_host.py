"""Shows that core, touched before the diffusion runtime is imported, already holds its object."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import sys

from sglang_platform.core import current_mm_platform as ours

assert ours.device_name == "example_oot"
assert "sglang" not in sys.modules
import sglang.multimodal_gen.runtime.platforms as host

assert host.current_platform is ours
assert isinstance(ours, host.Platform)
