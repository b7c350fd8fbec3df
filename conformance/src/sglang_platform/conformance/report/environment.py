"""Versions of everything that a result depends on. Read from metadata; nothing is imported for it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["environment"]

_PACKAGES = (
    "sglang-platform-core",
    "sglang-platform-devtools",
    "sglang-platform-conformance",
    "sglang",
    "torch",
    "triton",
    "transformers",
    "numpy",
    "hypothesis",
)


def environment(distribution: str | None) -> dict[str, Any]:
    """Python, system, processor, and the versions of the packages that count, the plugin's own first."""
    names = dict.fromkeys([*([distribution] if distribution else []), *_PACKAGES])
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": {name: _version(name) for name in names},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # no procfs
    return platform.processor() or None
