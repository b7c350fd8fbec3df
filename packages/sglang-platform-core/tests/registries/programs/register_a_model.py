"""Prints which heavy modules were imported for registering a model."""

import sys

from sglang_platform.core import registries

registries.register_model("A", "b:C")
print([name for name in ("torch", "sglang") if name in sys.modules])
