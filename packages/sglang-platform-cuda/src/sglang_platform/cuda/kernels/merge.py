"""Merges partial attention results on NVIDIA: the portable kernels with a register limit.

Without the limit the assembler targets a higher occupancy than these kernels need, and spills pointers; the affected
shapes differ by architecture and release.
"""

from __future__ import annotations

from functools import partial

from sglang_platform.core.portable.triton import merge

__all__ = ["merge_equal_parts", "merge_parts"]

_REGISTERS = 128

merge_parts = partial(merge.merge_parts, maxnreg=_REGISTERS)
merge_equal_parts = partial(merge.merge_equal_parts, maxnreg=_REGISTERS)
