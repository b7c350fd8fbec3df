"""The platform of this process, as a process of SGLang comes to it, and what SGLang logged of plugins on the way."""

from __future__ import annotations

import logging
from typing import Any

import sglang.srt.platforms as host
from sglang.srt.plugins import load_plugins

__all__ = ["current_platform", "errors_of_plugins"]

_errors: list[str] = []


class _Errors(logging.Handler):
    """SGLang logs an error of a plugin and goes on without it."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            _errors.append(f"{record.getMessage()}: {type(error).__name__}: {error}")


logging.getLogger(load_plugins.__module__).addHandler(_Errors())


def current_platform() -> Any:
    """SGLang's platform object, after SGLang loaded the plugins."""
    load_plugins()
    return host.current_platform


def errors_of_plugins() -> list[str]:
    """What SGLang logged of plugins that failed in this process, each with the error."""
    return list(_errors)
