"""Counts, and so does a fork of it. Prints both process ids. Started with `crash` it is killed at the end."""

import os
import sys

from sglang_platform.core.counters import counter

calls = counter("part.calls")
calls.add()
calls.add(4)
counter("other").set(9)
child = os.fork()
if child == 0:
    counter("part.calls").add(100)
    os._exit(0)
os.waitpid(child, 0)
print(os.getpid(), child, flush=True)
if "crash" in sys.argv:
    os.kill(os.getpid(), 9)
