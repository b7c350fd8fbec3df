"""The example device under a name of its own; see `platform.py`."""

from __future__ import annotations

import os

from sglang_platform.core import PlatformUnavailable, platform_plugin


@platform_plugin
def activate() -> str | None:
    if os.environ.get("SGLANG_PLATFORM") != "host_matrix_probe":
        raise PlatformUnavailable("set SGLANG_PLATFORM=host_matrix_probe")
    return "host_matrix_probe.platform:ProbePlatform"
