"""Joining the results of parts on NVIDIA: the portable kernels, told how many registers they may have.

Without a bound the assembler aims at more programs per processor than these need, and spills pointers for it; which
shapes it does that to differs by architecture and release.
"""

from __future__ import annotations

from functools import partial

from sglang_platform.core.portable.triton import merge

__all__ = ["merge_equal_parts", "merge_parts"]

_REGISTERS = 128

merge_parts = partial(merge.merge_parts, maxnreg=_REGISTERS)
merge_equal_parts = partial(merge.merge_equal_parts, maxnreg=_REGISTERS)
