"""What the copied platform's `activate()` answers, which imports no torch."""

import sys

from sglang_platform_acme_npu import activate

print(activate())
assert "torch" not in sys.modules
