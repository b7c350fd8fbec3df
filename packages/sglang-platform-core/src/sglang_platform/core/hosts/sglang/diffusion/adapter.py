"""What discovery asks of SGLang's diffusion runtime (`sglang_platform.core.hosts.HostAdapter`)."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from sglang_platform.core.errors import PluginOrigin

__all__ = ["ADAPTER", "PLATFORMS", "DiffusionAdapter"]

PLATFORMS = "sglang.multimodal_gen.runtime.platforms"
"""The module in which the runtime keeps its platform."""


class DiffusionAdapter:
    """`sglang.multimodal_gen` as the host."""

    name = "SGLang's diffusion runtime"

    @property
    def version(self) -> str:
        return importlib.metadata.version("sglang")

    def platform_base(self) -> type:
        from sglang.multimodal_gen.runtime.platforms.interface import Platform

        return Platform  # type: ignore[no-any-return]

    def rebase_platform(self, cls: type, origin: PluginOrigin) -> type:
        from sglang_platform.core.hosts.sglang.diffusion.platform import rebase_platform

        return rebase_platform(cls, origin)

    def own_platform(self) -> Any:
        return sys.modules[PLATFORMS].current_platform


ADAPTER = DiffusionAdapter()
