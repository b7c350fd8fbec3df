"""One hook per kind of process, so that a process without plugins is seen."""

from __future__ import annotations

from typing import Any

from sglang_platform.core import HookRegistry, HookType, counter


def register() -> None:
    """The plugin's entry point, run in every process of the host."""
    _count("sglang.srt.managers.scheduler:Scheduler.__init__", "probe.process.scheduler")
    _count("sglang.srt.managers.detokenizer_manager:DetokenizerManager.__init__", "probe.process.detokenizer")
    _count("sglang.srt.managers.tokenizer_manager:TokenizerManager.__init__", "probe.process.launcher")


def _count(target: str, name: str) -> None:
    counted = counter(name)

    def before(*args: Any, **kwargs: Any) -> None:
        counted.add()

    HookRegistry.register(target, before, HookType.BEFORE)
