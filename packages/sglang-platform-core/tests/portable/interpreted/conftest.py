"""The parts on their kernels in the interpreter; `../test_parts_interpreted.py` gives them a process of their own."""

from __future__ import annotations

import os

if os.environ.get("TRITON_INTERPRET") == "1":
    from sglang_platform.conformance.kernels import interpreter

    interpreter.start()
else:
    collect_ignore_glob = ["*"]
