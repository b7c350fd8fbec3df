"""Calls one of the defects of `control.cpp`: `control.py LIBRARY FUNCTION`."""

import ctypes
import sys

print(getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(2**31 - 1))
