"""What `torch.compile` has traced before a hook came: it takes what a class has for constant, whoever changes it."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["forget_traced"]


def forget_traced() -> None:
    """Let all compiled code of this process be traced again at its next call.

    Not by `torch._dynamo.reset_code_caches()`: it waits for a thread that compiles, whose imports may wait for us.
    """
    dynamo: Any = sys.modules.get("torch._dynamo")
    frames: Any = sys.modules.get("torch._dynamo.convert_frame")
    if hasattr(dynamo, "reset_code") and hasattr(frames, "input_codes"):  # else it is still being imported
        for reference in [*frames.input_codes.seen, *frames.output_codes.seen]:
            code = reference()
            if code is not None:
                dynamo.reset_code(code)
