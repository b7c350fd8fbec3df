"""Runs a program as far as its argument parser: `parse_only.py -m MODULE ARGUMENTS`, or with a file in its place."""

import argparse
import runpy
import sys
from pathlib import Path

parse = argparse.ArgumentParser.parse_args


def parse_and_end(self, args=None, namespace=None):
    parse(self, args, namespace)
    print("parsed")
    sys.exit(0)


argparse.ArgumentParser.parse_args = parse_and_end
if sys.argv[1] == "-m":
    sys.argv = sys.argv[2:]
    sys.path.insert(0, "")
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
