"""Is torch imported by importing the package and listing its names?"""

import sys

import sglang_platform.core.memory as memory

dir(memory)
print("torch" in sys.modules)
