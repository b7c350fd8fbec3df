"""Declared kernels for `gpu_all.py`: one right, one wrong, one that kills its process."""

from __future__ import annotations

import os
import signal
from typing import Any

from sglang_platform.core.contract.kernels import CompileLimits, KernelDeclaration

_PLACE = "sglang_platform.core.portable.triton.page_slots"
_LIMITS = {"decode_slots_kernel": CompileLimits(why="not compiled here")}


def wrong(*arguments: Any, **options: Any) -> None:
    """One slot further than the right ones."""
    from sglang_platform.core.portable.triton.page_slots import extend_slots

    extend_slots(*arguments, **options)
    arguments[4].add_(1)


def dies(*arguments: Any, **options: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


KERNELS = tuple(
    KernelDeclaration(name=name, entry=entry, check=check, limits=_LIMITS, targets=())
    for name, entry, check in (
        ("right", f"{_PLACE}:decode_slots", "decode_slots"),
        ("off by one", "rehearsed_kernels:wrong", "extend_slots"),
        ("deadly", "rehearsed_kernels:dies", "rms_norm"),
    )
)
