"""What discovery and plugin loading ask of SGLang (`sglang_platform.core.host.HostAdapter`), for either runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.host import HostRuntime, PoolAsked
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.versions import installed_version

__all__ = ["RuntimeAdapter"]


class RuntimeAdapter:
    """One runtime of SGLang as the host."""

    def __init__(
        self,
        name: str,
        runtime: HostRuntime,
        *,
        platform_base: str,
        rebase_platform: Callable[[type, PluginOrigin], type],
    ) -> None:
        self.name = name
        self.pool_asked: PoolAsked | None = None
        self._runtime = runtime
        self._platform_base = platform_base
        self._rebase_platform = rebase_platform

    @property
    def version(self) -> str:
        return installed_version()

    def platform_base(self) -> type:
        base: type = load(self._platform_base)
        return base

    def rebase_platform(self, cls: type, origin: PluginOrigin) -> type:
        return self._rebase_platform(cls, origin)

    def own_platform(self) -> Any:
        return sys.modules[self._runtime.platform_module].current_platform
