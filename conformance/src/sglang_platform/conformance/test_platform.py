"""What `pytest --pyargs sglang_platform.conformance --platform NAME` collects."""

from __future__ import annotations

from sglang_platform.conformance.suite import PlatformSuite


class TestPlatform(PlatformSuite):
    """The platform that the command line names."""
