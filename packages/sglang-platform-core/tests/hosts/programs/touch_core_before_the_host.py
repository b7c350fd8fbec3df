"""Shows that core, touched before the host is imported, already holds the host's object."""

# ruff: noqa: E402 -- each import stands where the check first needs it

import sys

from sglang_platform.core import current_platform as ours

assert ours.device_name == "example_oot"
assert "sglang" not in sys.modules
before = type(ours)
import sglang.srt.platforms as host

assert host.current_platform is ours
from sglang.srt.platforms.interface import SRTPlatform

assert isinstance(ours, SRTPlatform)
assert isinstance(ours, before)
