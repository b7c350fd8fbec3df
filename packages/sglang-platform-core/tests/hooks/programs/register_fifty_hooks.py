"""Prints which heavy modules were imported for registering 50 hooks, in one word."""

import sys

before = set(sys.modules)

from sglang_platform.core.hooks.registry import HookRegistry, HookType, plugin_hook  # noqa: E402, F401

HEAVY = {"sglang", "torch", "numpy", "ast", "inspect", "logging", "difflib"}

for i in range(50):
    HookRegistry.register(f"sglang.srt.managers.scheduler:Scheduler.method_{i}", print, HookType.BEFORE)
print(",".join(sorted(HEAVY & (set(sys.modules) - before))) or "-")
