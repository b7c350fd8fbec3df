"""Every module of the contract imported: which heavy modules came with them?"""

import importlib
import logging
import sys

logging.disable()  # an older name in one of them is told in the log
for module in (
    "bridges",
    "capabilities",
    "checks",
    "device",
    "drift",
    "members",
    "mm",
    "signatures",
    "source",
    "srt",
    "types",
    "values",
    "version",
):
    importlib.import_module(f"sglang_platform.core.contract.{module}")
print([name for name in ("torch", "numpy", "sglang", "triton") if name in sys.modules])
