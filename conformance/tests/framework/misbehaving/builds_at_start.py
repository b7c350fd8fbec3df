"""A platform whose module compiles C++ for $BUILD_SECONDS, as torch's extensions do at their first import."""

from __future__ import annotations

import os
import subprocess
import time

from sglang_platform.conformance.reference.platform import ReferencePlatform

_UNTIL = time.monotonic() + float(os.environ["BUILD_SECONDS"])
while time.monotonic() < _UNTIL:
    subprocess.run(
        ["g++", "-O2", "-x", "c++", "-c", "-o", "/dev/null", "-"],
        input='#include <regex>\nstd::regex made("a*b");\n',
        text=True,
        check=True,
    )


class Platform(ReferencePlatform):
    pass
