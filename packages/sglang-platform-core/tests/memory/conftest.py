from __future__ import annotations

import sys
from pathlib import Path

# `small_parts` is a plain module of this folder.
sys.path.insert(0, str(Path(__file__).parent))
