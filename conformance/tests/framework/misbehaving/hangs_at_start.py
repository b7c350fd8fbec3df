"""A platform whose module waits for a device that does not come."""

from __future__ import annotations

import time

from sglang_platform.conformance.reference.platform import ReferencePlatform

time.sleep(600)


class Platform(ReferencePlatform):
    pass
