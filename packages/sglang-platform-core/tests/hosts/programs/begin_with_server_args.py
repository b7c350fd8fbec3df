"""A program that builds `ServerArgs` before anything else, and nobody loads plugins."""

import sys

from sglang.srt.server_args import ServerArgs

arguments = ServerArgs(model_path=sys.argv[1], **({"device": sys.argv[2]} if len(sys.argv) > 2 else {}))
settle = getattr(arguments, "resolve_once", None)
if settle is not None:
    settle()
