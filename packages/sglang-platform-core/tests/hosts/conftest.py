"""Beside the tests: `host_protocols`, which reads what SGLang asks of parts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
