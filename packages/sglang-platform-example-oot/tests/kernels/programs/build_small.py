"""Builds a few lines of C++ as the kernels are built, and prints where the library lies: `build_small.py SOURCES`."""

import sys
from pathlib import Path

from sglang_platform.example_oot.kernels import build_cache, native

native.SOURCES = Path(sys.argv[1])
build_cache.SECONDS_STOPPED = 1.0
print(native._built(retry=False))
