"""Builds the device with SGLANG_EXAMPLE_OOT_CXXFLAGS into SGLANG_EXAMPLE_OOT_CACHE; runs under the sanitizer's runtime.

The compiler itself runs without it: it would be slow, and has leaks of its own.
"""

import os

os.environ.pop("LD_PRELOAD", None)

from sglang_platform.example_oot.kernels import library

assert library.backend() == "native"
