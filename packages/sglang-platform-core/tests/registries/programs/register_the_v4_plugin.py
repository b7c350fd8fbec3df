"""Prints which heavy modules were imported for registering all parts of the worked example, whose sources are given."""

import sys

sys.path.insert(0, sys.argv[1])

import deepseek_v4_plugin

deepseek_v4_plugin.register()
print([name for name in ("torch", "sglang") if name in sys.modules])
