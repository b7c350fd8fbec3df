from __future__ import annotations

import sys
from pathlib import Path

# `state_cases` is a plain module of this folder.
sys.path.insert(0, str(Path(__file__).parent))
