from __future__ import annotations

import sys
from pathlib import Path

# A plain module of this folder: `fixes_of_my_accelerator`.
sys.path.insert(0, str(Path(__file__).parent))
