"""The host's general plugins in every process that has the platform, also where nobody calls its `load_plugins()`.

Programs that build a `ServerArgs` or a `ModelRunner` themselves do not call it, nor do SGLang's benchmarks and its
actors under Ray. All import `sglang.srt.server_args`, and a client does not. So the plugins are loaded at the end of
the import that brought it: not inside, since a plugin may import what is only half there.
"""

from __future__ import annotations

import logging
import sys
from types import FrameType, ModuleType
from typing import Any

from sglang_platform.core.discovery.kind import SRT
from sglang_platform.core.hooks.patching.finder import HookFinder, when_finished
from sglang_platform.core.plugins import has_begun
from sglang_platform.core.sglang.start.llm_plugin_loop import LOOP

__all__ = ["load_plugins_soon"]

_IMPORTED_BY_ALL = "sglang.srt.server_args"


def load_plugins_soon() -> None:
    """For the moment at which the host gets its platform from us. Again is a no-op."""
    if _IMPORTED_BY_ALL in sys.modules:
        _load_after_the_import()
    else:
        _finder.install()


def _load_after_the_import(*_: Any) -> None:
    _finder.remove()
    outermost = _outermost_of_the_host()
    if outermost is None or not when_finished(outermost, _load):
        _load()


_finder = HookFinder({_IMPORTED_BY_ALL}, _load_after_the_import)


def _outermost_of_the_host() -> ModuleType | None:
    """Of the host's modules that this thread is importing now, the one that began first."""
    found = None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "<module>" and name.partition(".")[0] == "sglang":
            found = sys.modules.get(name, found)
        frame = frame.f_back
    return found


def _load(*_: Any) -> None:
    loader: Any = sys.modules[LOOP.module]
    loader.load_plugins()
    if not has_begun(SRT):
        logging.getLogger(__name__).warning(
            "hooks of core and of all plugins are missing in this process, and finalize_server_args() is not called: "
            "%s.load_plugins() was called before the platform was chosen; let `import sglang` come first",
            LOOP.module,
        )
