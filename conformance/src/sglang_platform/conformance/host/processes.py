"""What each process of SGLang reported about itself: which platform it ended on and why, which hooks took effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["read"]


def read(report_dir: Path) -> list[dict[str, Any]]:
    """The reports of all processes, in the order they started."""
    reports = [json.loads(path.read_text()) for path in report_dir.glob("process-*.json")]
    return sorted(reports, key=lambda report: float(report["started"]))
