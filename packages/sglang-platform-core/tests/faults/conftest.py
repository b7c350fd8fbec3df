"""The fault table's modules import each other, as they also do for `compare_with_host.py`, which is run as a script."""

import sys
from pathlib import Path

from command_runner import libraries

__all__ = ["libraries"]

sys.path.insert(0, str(Path(__file__).parent))
