"""What `activate()` answers here, what the probe says, and which heavy modules that imported."""

import sys

from sglang_platform.core import PlatformUnavailable
from sglang_platform.rocm import activate
from sglang_platform.rocm.probe import why_unavailable

try:
    print(activate())
except PlatformUnavailable as answer:
    print(answer.reason)
print(why_unavailable())
print([name for name in ("torch", "numpy", "triton", "sglang") if name in sys.modules])
