"""The host's arithmetic of a launch is Triton's, without what that takes to be callable in kernels."""

from __future__ import annotations

import triton

from sglang_platform.core.portable.triton.launch import cdiv, next_power_of_2


def test_blocks_and_powers_are_tritons() -> None:
    for n in (*range(1, 300), 1023, 1024, 1025, 2**31 - 1, 2**31, 2**40 + 1):
        assert next_power_of_2(n) == triton.next_power_of_2(n)
        assert [cdiv(n, size) for size in (1, 7, 64)] == [triton.cdiv(n, size) for size in (1, 7, 64)]
