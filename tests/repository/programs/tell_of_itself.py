"""Prints what it was started with, sleeps so many seconds, and ends with status 3."""

import os
import sys
import time
from pathlib import Path

assert __name__ == "__main__"
assert not any(name.partition(".")[0] in ("sglang", "sglang_platform") for name in sys.modules)
print(sys.argv[1:], os.environ["TOLD"], Path.cwd(), sys.path[1], flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(3)
