"""What kernels must know of the compiler's release. Read when a kernel is compiled, so that it costs no instruction."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["BY_FLOAT32"]

BY_FLOAT32 = tl.constexpr(tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7))
"""Whether 8-bit floats must be converted to bfloat16 through float32, which is exact as well. The direct conversion of
Triton 3.6 uses an instruction that some targets lack, and on others the compiler fails an assertion."""
