"""What discovery and plugin loading ask of SGLang (`sglang_platform.core.hosts.HostAdapter`)."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from sglang_platform.core.errors import PluginOrigin

__all__ = ["ADAPTER", "SGLangAdapter"]


class SGLangAdapter:
    """SGLang as the host."""

    name = "sglang"

    @property
    def version(self) -> str:
        return importlib.metadata.version("sglang")

    def platform_base(self) -> type:
        from sglang.srt.platforms.interface import SRTPlatform

        return SRTPlatform  # type: ignore[no-any-return]

    def rebase_platform(self, cls: type, origin: PluginOrigin) -> type:
        from sglang_platform.core.hosts.sglang.srt.platform import rebase_platform

        return rebase_platform(cls, origin)

    def own_platform(self) -> Any:
        return sys.modules["sglang.srt.platforms"].current_platform


ADAPTER = SGLangAdapter()
