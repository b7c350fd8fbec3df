"""Load SGLang's general plugins in every process with the platform, even if nothing calls `load_plugins()`.

SGLang's benchmarks, its actors under Ray, and programs that build a `ServerArgs` or a `ModelRunner` do not call it. All
of them import `sglang.srt.server_args`, which clients do not. So the plugins are loaded when the outermost SGLang
import that led there has finished. During the import, a plugin could meet partially initialized modules.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any

from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.hooks.patching.finder import HookFinder, is_running, when_finished
from sglang_platform.core.plugins import has_begun
from sglang_platform.core.sglang.start.llm_plugin_loop import LOOP

__all__ = ["load_plugins_soon"]

_IMPORTED_BY_ALL = "sglang.srt.server_args"


def load_plugins_soon() -> None:
    """Load the plugins once `sglang.srt.server_args` is imported. Called when SGLang gets its platform; idempotent."""
    if _IMPORTED_BY_ALL in sys.modules:
        _load_after_the_import()
    else:
        _finder.install()


def _load_after_the_import(*_: Any) -> None:
    _finder.remove()
    # `sys.modules` is in the order in which the imports began.
    running = (module for name, module in sys.modules.copy().items() if _is_half_imported(name, module))
    outermost = next(running, None)
    if outermost is None or not when_finished(outermost, _load):
        _load()


_finder = HookFinder({_IMPORTED_BY_ALL}, _load_after_the_import)


def _is_half_imported(name: str, module: ModuleType) -> bool:
    return name.partition(".")[0] == "sglang" and is_running(module)


def _load(*_: Any) -> None:
    loader: Any = sys.modules[LOOP.module]
    loader.load_plugins()
    if not has_begun(SRT):
        logging.getLogger(__name__).warning(
            "hooks of core and of all plugins are missing in this process, and finalize_server_args() is not called: "
            "%s.load_plugins() was called before the platform was chosen; let `import sglang` come first",
            LOOP.module,
        )
