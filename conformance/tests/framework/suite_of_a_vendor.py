"""What a vendor writes in a test folder of its own. Copied there under a name that pytest collects."""

from __future__ import annotations

from sglang_platform.conformance import PlatformSuite


class TestMyDevice(PlatformSuite):
    platform = "odd=odd_platforms:Raises"
    checks = (
        "contract.factories_answer_with_classes",
        "contract.device_is_named",
        "host.engine_starts",
    )
