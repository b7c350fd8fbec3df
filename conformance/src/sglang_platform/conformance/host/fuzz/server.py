"""How the server is started that hostile requests are sent to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["CONTEXT", "arguments"]

CONTEXT = 512
"""Tokens: short, so that a request for the longest answer takes seconds."""


def arguments(checkpoint: Path) -> dict[str, Any]:
    """Options of the command line for `ServerProcess`."""
    return {
        "model_path": str(checkpoint),
        "context_length": CONTEXT,
        "max_total_tokens": 8192,
        "max_running_requests": 16,
        "enable_metrics": True,
    }
