"""The command with these arguments; fails where it imported anything heavy, or a platform that it reads only."""

import contextlib
import sys

from sglang_platform.core.cli.app import app

with contextlib.suppress(SystemExit):
    app(sys.argv[1:])
heavy = {"torch", "sglang", "triton", "numpy", "sglang_platform.example_oot.platform"} & set(sys.modules)
assert not heavy, heavy
