"""Triton's interpreter, made trustworthy: `start()` before any kernel is imported.

Only for a process of its own with `TRITON_INTERPRET=1` in the environment; see `interpreter.process`.
"""

from __future__ import annotations

import os
import sys

import numpy as np

__all__ = ["start"]


def start() -> None:
    """Repairs the interpreter and watches its memory accesses, for the rest of this process.

    Raises RuntimeError where the process was not started for it: kernels decorated earlier would be compiled.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError(
            "the interpreter needs a process of its own, started with TRITON_INTERPRET=1: "
            "see sglang_platform.conformance.kernels.interpreter.process"
        )
    early = [name for name in sys.modules if name.startswith("sglang_platform.") and ".kernels." in name]
    early = [name for name in early if not name.startswith("sglang_platform.conformance.")]
    if early and "triton" not in sys.modules:
        raise RuntimeError(f"kernels were imported before the interpreter was started: {early}")
    # They import torch and Triton; a parent that only starts the process does without.
    from sglang_platform.conformance.kernels.interpreter import language, repair, watch

    np.seterr(over="ignore")  # a device overflows silently
    language.patch_once()
    repair.install()
    watch.install()
