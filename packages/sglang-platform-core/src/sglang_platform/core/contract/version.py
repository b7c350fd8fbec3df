"""The version of the contract.

One integer, raised on a breaking change only. A distribution states the version it was built for in its
metadata, under the entry-point group `sglang_platform.contract`, with the plugin's name and `v<number>` as
the value (``my_device = "v1"``), so that it is read before any of the plugin's code is imported.
"""

from __future__ import annotations

__all__ = ["CONTRACT_VERSION"]

CONTRACT_VERSION = 1
"""The contract version that this core speaks."""
