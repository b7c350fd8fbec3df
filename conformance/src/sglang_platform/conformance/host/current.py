"""The platform of this process, as a process of SGLang comes to it."""

from __future__ import annotations

from typing import Any

import sglang.srt.platforms as host
from sglang.srt.plugins import load_plugins

__all__ = ["current_platform"]


def current_platform() -> Any:
    """SGLang's platform object, after SGLang loaded the plugins."""
    load_plugins()
    return host.current_platform
