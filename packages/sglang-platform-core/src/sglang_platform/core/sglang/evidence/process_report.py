"""The report of this SGLang process, written to a file for other processes.

If `SGLANG_PLATFORM_REPORT_DIR` is set, each process writes `process-<pid>.json` when its plugins are loaded, and again
whenever hooks are applied. It contains the platform decision and its trace, the general plugins, the state of each hook
in our registry and in SGLang's, and the warnings of sglang-platform's loggers so far.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from sglang_platform.core.counters import REPORT_DIR_VARIABLE, reporting
from sglang_platform.core.discovery import current
from sglang_platform.core.hooks.registry import HookRegistry
from sglang_platform.core.plugins import loaded_plugins
from sglang_platform.core.registries import events
from sglang_platform.core.registries.registry import registries
from sglang_platform.core.sglang.arguments import host_limits
from sglang_platform.core.sglang.device import stubs
from sglang_platform.core.sglang.evidence.host_registry import host_hooks
from sglang_platform.core.sglang.rebase import is_rebased
from sglang_platform.core.sglang.start.llm_platform import ADAPTER

__all__ = ["keep", "keep_warnings"]

_STARTED = time.time()
_warnings: list[str] = []


class _Keeper(logging.Handler):
    """Keeps the warnings of sglang-platform in this process for the report."""

    def emit(self, record: logging.LogRecord) -> None:
        _warnings.append(f"{record.name}: {record.getMessage()}")


def keep_warnings() -> None:
    """Keep warnings for the report from now on. No-op if the variable is unset; idempotent."""
    logger = logging.getLogger("sglang_platform")
    if os.environ.get(REPORT_DIR_VARIABLE) and not any(isinstance(one, _Keeper) for one in logger.handlers):
        logger.addHandler(_Keeper(logging.WARNING))


def keep() -> None:
    """Write the report of this process now, and whenever hooks change. No-op if the variable is unset."""
    folder = os.environ.get(REPORT_DIR_VARIABLE)
    if folder:
        path = Path(folder) / f"process-{os.getpid()}.json"
        _write(path)
        HookRegistry.when_settled(lambda: _write(path))


def _write(path: Path) -> None:
    partial = path.with_suffix(f".{os.getpid()}.partial")
    text = json.dumps(_report(), indent=1)
    with reporting():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text)
        partial.replace(path)  # a reader never sees half a report


def _report() -> dict[str, Any]:
    decision = current.decision()
    trace = current.trace()
    return {
        "pid": os.getpid(),
        "started": _STARTED,
        "command": sys.argv,
        "host": {"name": ADAPTER.name, "version": ADAPTER.version},
        "platform": {
            "plugin": decision.origin._asdict() if decision and decision.origin else None,
            "class": _name(type(current.current_platform)) if current.resolved() else None,
            "trace": trace.as_dict() if trace else None,
            "explained": list(trace.lines()) if trace else [],
        },
        "plugins": [
            {"plugin": plugin.origin._asdict(), "state": plugin.state, "reason": plugin.reason}
            for plugin in loaded_plugins()
        ],
        "limits": _limits(),
        "warnings": list(_warnings),
        "stubs": list(stubs.served()),
        "registries": _registries(),
        "hooks": HookRegistry.report(),
        "hooks_on_the_hosts_registry": list(host_hooks()),
    }


def _limits() -> list[dict[str, str]]:
    """The features of the platform that this release of SGLang cannot use."""
    platform = current.current_platform
    if not (current.resolved() and is_rebased(platform)):
        return []
    return [limit._asdict() for limit in host_limits.limits_of(platform)]


def _registries() -> dict[str, Any]:
    """The parts in each registry, and what the lifecycle listeners return for the report."""
    parts: dict[str, Any] = {registry.name: registry.describe() for registry in registries()}
    return {**parts, "answers": events.query_collect("query_report")}


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
