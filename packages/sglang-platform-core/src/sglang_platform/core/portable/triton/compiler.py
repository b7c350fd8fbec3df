"""What kernels must know of the compiler's release. Read when a kernel is compiled, so that it costs no instruction."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["BY_FLOAT32"]

BY_FLOAT32 = tl.constexpr(tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7))
"""Whether 8-bit floats must become bfloat16 by way of float32, which is exact too: where Triton 3.6 widens at once, it
takes an instruction that some targets do not have, and on others its compiler ends in a failed assertion."""
