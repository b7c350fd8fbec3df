"""The command with these arguments; fails where it imported the host, a plugin or anything heavy."""

import sys

from sglang_platform.core.cli.app import app

try:
    app(sys.argv[1:])
finally:
    found = {"torch", "numpy", "sglang", "made_host", "made_vendor"} & set(sys.modules)
    assert not found, found
